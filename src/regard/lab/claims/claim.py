"""A claim put to the test: what is said, what was measured, and the plain answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.judging.finding import Better, Finding
from regard.judging.statistics.intervals import estimate

RESAMPLES = 1000
FEW = 5  # seeds; the interval of fewer misses more than a fifth of their variance


@dataclass(frozen=True)
class Curve:
    """One measured thing along the axis of its panel: a finding at each place, or None where it was not measured."""

    name: str
    findings: "tuple[Finding | None, ...]"


@dataclass(frozen=True)
class Panel:
    """Curves over a common axis: what a table has as rows and a figure as its x.

    x       numbers or names; log: which axes are logarithmic, "x", "y", "xy" or ""
    limit   a level that is known beforehand, such as chance, by its name
    note    what the reader must know to read it
    """

    title: str
    along: str
    y: str
    x: "tuple[float | str, ...]"
    curves: tuple[Curve, ...]
    log: str = ""
    limit: "tuple[str, float] | None" = None
    note: str = ""

    def at(self, curve: str, x: "float | str") -> Finding:
        """The finding of a curve at a place."""
        found = next(one for one in self.curves if one.name == curve).findings[self.x.index(x)]
        if found is None:
            raise KeyError(f"{self.title}: {curve} was not measured at {x}.")
        return found


@dataclass(frozen=True)
class Claim:
    """What is said of graph attention, how it was measured, and what came out.

    name, says   by what it is called, and the claim as it is made
    answer       what the numbers say, sentence by sentence
    settings     by name; left_out: what was not run, and why
    """

    name: str
    says: str
    answer: tuple[str, ...]
    panels: tuple[Panel, ...]
    seeds: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def caution(self) -> str:
        """What must be said of an answer from few seeds; nothing from enough."""
        if self.seeds >= FEW:
            return ""
        return (
            f"These are {self.seeds} seeds: intervals over so few are too narrow, and what is called above, below, "
            f"better or worse is a hint. Take {FEW} or more."
        )

    @property
    def findings(self) -> list[Finding]:
        return [one for panel in self.panels for curve in panel.curves for one in curve.findings if one is not None]

    def as_dict(self) -> dict[str, Any]:
        panels = [
            {
                "title": panel.title,
                "along": panel.along,
                "y": panel.y,
                "x": list(panel.x),
                "note": panel.note,
                "log": panel.log,
                "limit": None if panel.limit is None else {"name": panel.limit[0], "value": panel.limit[1]},
                "curves": {
                    curve.name: [None if one is None else one.as_dict() for one in curve.findings]
                    for curve in panel.curves
                },
            }
            for panel in self.panels
        ]
        return {
            "claim": self.name,
            "says": self.says,
            "answer": list(self.answer),
            "caution": self.caution,
            "seeds": self.seeds,
            "settings": dict(self.settings),
            "left_out": list(self.left_out),
            "panels": panels,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Claim":
        """What `as_dict` gave, to be drawn again."""
        panels = [
            Panel(
                one["title"],
                one["along"],
                one["y"],
                tuple(one["x"]),
                tuple(
                    Curve(name, tuple(None if found is None else Finding.from_dict(found) for found in each))
                    for name, each in one["curves"].items()
                ),
                one["log"],
                None if one["limit"] is None else (one["limit"]["name"], one["limit"]["value"]),
                one["note"],
            )
            for one in plain["panels"]
        ]
        return cls(
            plain["claim"],
            plain["says"],
            tuple(plain["answer"]),
            tuple(panels),
            plain["seeds"],
            plain["settings"],
            tuple(plain["left_out"]),
        )


def over_seeds(
    name: str,
    values: ArrayLike,
    *,
    test: str,
    better: Better = "higher",
    unit: str = "share",
    baselines: "Mapping[str, float | None] | None" = None,
) -> Finding:
    """A finding of one number a seed, or of (seeds, instances), with the interval over what there is of both."""
    table = np.asarray(values, dtype=np.float64)
    found = estimate(table if table.ndim > 1 else table[:, None], seeds=True, resamples=RESAMPLES)
    said = "undefined for every seed." if found.value is None else f"{name}: {found.value:.3f} over {len(table)} seeds."
    return Finding.of(found, name=name, says=said, better=better, test=test, unit=unit, baselines=baselines or {})


def apart(a: ArrayLike, b: ArrayLike) -> str:
    """How a compares with b, paired by seed: "above", "below" or "not significantly different from"."""
    found = estimate((np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64))[:, None], seeds=True)
    if found.interval is None:
        return "not significantly different from"
    low, high = found.interval
    return "above" if low > 0 else "below" if high < 0 else "not significantly different from"
