"""A claim under test: the claim, the measurements, and the answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.judging.finding import Better, Finding
from regard.judging.statistics.comparison import compare

RESAMPLES = 2000
FEW = 6  # seeds; with fewer no difference can be significant, however large it is


@dataclass(frozen=True)
class Curve:
    """One measured quantity along the axis of its panel: a finding at each position, or None if not measured."""

    name: str
    findings: "tuple[Finding | None, ...]"


@dataclass(frozen=True)
class Panel:
    """Curves over a common axis: the rows of a table, the x axis of a figure.

    x       numbers or names; log: which axes are logarithmic, "x", "y", "xy" or ""
    limit   a reference level, such as chance, with its name
    note    a note for the reader
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
    """A claim about graph attention, its measurements and the answer.

    name, says   the name and the wording of the claim
    answer       conclusions, sentence by sentence
    settings     by name; left_out: skipped parts, with reasons
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
        """A caution for few seeds; "" for enough."""
        if self.seeds >= FEW:
            return ""
        return (
            f"These are {self.seeds} seeds: with fewer than {FEW} no difference between models can be significant by "
            "the sign-flip test, and their intervals are wide."
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
        """The inverse of `as_dict`."""
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
    baselines: "Mapping[str, ArrayLike | float | None] | None" = None,
) -> Finding:
    """A finding from one value a seed, or from (seeds, instances), with an interval over both."""
    table = np.asarray(values, dtype=np.float64)
    table = table if table.ndim > 1 else table[:, None]
    beside = {other: _like(table, one) for other, one in (baselines or {}).items()}
    found = compare(table, beside, seeds=True, scale=(0.0, 1.0) if unit == "share" else "real", resamples=RESAMPLES)
    said = "undefined for every seed." if found.value is None else f"{name}: {found.value:.3f} over {len(table)} seeds."
    return Finding.of(found, name=name, says=said, better=better, test=test, unit=unit)


def _like(table: np.ndarray, one: "ArrayLike | float | None") -> "np.ndarray | float | None":
    """A baseline on the same seeds and instances; a number is itself."""
    if one is None or np.ndim(one) == 0:
        return None if one is None else float(one)  # type: ignore[arg-type]
    other = np.asarray(one, dtype=np.float64)
    return other if other.ndim > 1 else other[:, None]


def apart(a: ArrayLike, b: ArrayLike) -> str:
    """How a compares with b, paired by seed: "above", "below" or "not significantly different from", which fewer
    than six seeds always are."""
    found = over_seeds("difference", a, test="apart", baselines={"b": b})
    return {"better": "above", "worse": "below"}.get(found.against("b"), "not significantly different from")
