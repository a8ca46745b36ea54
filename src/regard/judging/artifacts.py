"""Artifacts of tests: the plain numbers and words that figures are drawn from; how they look is decided in views.

A test adds one by `add_artifact(Histogram(...))`. Outside of `collect_artifacts()` this does nothing, so a test gives
the same findings when it is called on its own.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

Numbers = Sequence[float | None] | np.ndarray | Tensor  # kept as a list; None where undefined


class Artifact:
    """One thing to look at: a title, and a sentence that says how to read it."""

    kind: ClassVar[str]
    title: str

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Histogram(Artifact):
    """How often a number has which size: values by name, those of several names over each other."""

    kind = "histogram"
    title: str
    axis: str
    values: Mapping[str, Numbers]
    says: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", {name: plain(some) for name, some in self.values.items()})


@dataclass(frozen=True)
class Series:
    """Places (x, y) of one name; low and high where y has an interval."""

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    line: bool = True

    def __post_init__(self) -> None:
        for side in ("x", "y", "low", "high"):
            if getattr(self, side) is not None:
                object.__setattr__(self, side, plain(getattr(self, side)))
        sizes = {len(some) for some in (self.x, self.y, self.low, self.high) if some is not None}
        if len(sizes) > 1:
            raise ValueError(
                f"Series({self.name!r}): x, y, low and high have {sorted(sizes)} numbers: expected as many."
            )


@dataclass(frozen=True)
class Plot(Artifact):
    """Points or lines in a plane; both axes are named."""

    kind = "plot"
    title: str
    x: str
    y: str
    series: Sequence[Series]
    says: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "series", tuple(self.series))


@dataclass(frozen=True)
class Grid(Artifact):
    """Numbers in rows and columns: heads by layer, how far measures agree. down and across name the two axes."""

    kind = "grid"
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Numbers]
    unit: str = ""
    says: str = ""
    down: str = ""
    across: str = ""

    def __post_init__(self) -> None:
        for side in ("rows", "columns"):
            object.__setattr__(self, side, tuple(getattr(self, side)))
        object.__setattr__(self, "values", [plain(row) for row in self.values])
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise ValueError(
                f"Grid({self.title!r}): values are {[len(row) for row in self.values]}, expected "
                f"{len(self.rows)} rows of {len(self.columns)}."
            )


@dataclass(frozen=True)
class TextExample:
    """One text: its words, weights by name (a rationale is 1 where it is marked), and facts such as what was said."""

    name: str
    words: Sequence[str]
    weights: Mapping[str, Numbers]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "weights", {name: plain(some) for name, some in self.weights.items()})
        for name, some in self.weights.items():
            if len(some) != len(self.words):
                raise ValueError(f"Example({self.name!r}): {name} has {len(some)} weights for {len(self.words)} words.")


@dataclass(frozen=True)
class TextExamples(Artifact):
    """Some texts, each with several weights side by side."""

    kind = "texts"
    title: str
    texts: Sequence[TextExample]
    says: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))


@dataclass(frozen=True)
class Caution(Artifact):
    """What is to be known before other findings are read; a report says it at its top, in one sentence."""

    kind = "caution"
    title: str
    says: str


KINDS: dict[str, type[Any]] = {one.kind: one for one in (Histogram, Plot, Grid, TextExamples, Caution)}


def plain(values: Numbers) -> list[float | None]:
    """Numbers for JSON: NaN and infinity are None."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    given = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if x is None or not math.isfinite(x) else float(x) for x in given]


def from_dict(given: Mapping[str, Any]) -> Artifact:
    """What as_dict() gave."""
    parts = dict(given)
    kind = parts.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"Evidence was read of kind {kind!r}: expected one of {', '.join(KINDS)}.")
    try:
        for name, inner in (("series", Series), ("texts", TextExample)):
            if name in parts:
                parts[name] = [inner(**one) for one in parts[name]]
        made: Artifact = KINDS[kind](**parts)
    except TypeError as problem:
        raise ValueError(f"Evidence of kind {kind!r} was read that is not whole: {problem}.") from problem
    return made


_listening: "ContextVar[list[Artifact] | None]" = ContextVar("evidence", default=None)


def collects_artifacts() -> bool:
    """Whether artifacts are collected: those that cost a run of the model are computed only then."""
    return _listening.get() is not None


def add_artifact(evidence: Artifact) -> None:
    """Add an artifact of a test to the open collection; without one this does nothing."""
    found = _listening.get()
    if found is not None:
        found.append(evidence)


@contextmanager
def collect_artifacts() -> Iterator[list[Artifact]]:
    """Collects the artifacts that tests add within this block."""
    found: list[Artifact] = []
    token = _listening.set(found)
    try:
        yield found
    finally:
        _listening.reset(token)
