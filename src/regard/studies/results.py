"""What a study found, as a plain table: all that statistics, tables and figures are made from."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..models.training.experiment import Measure

VERSION = 1


@dataclass(frozen=True)
class Row:
    """One number of one trained model.

    value    None says that it is undefined there (no attention has no weight on the answer)
    scores   of each test instance, in the order of the test part, where the metric has such: what is resampled. Their
             mean is the value for an accuracy and need not be for others (BLEU)
    """

    task: str
    variant: str
    seed: int
    metric: str
    value: float | None
    scores: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.value is not None and math.isnan(self.value):
            raise ValueError(
                f"Row({self.task}, {self.variant}, seed {self.seed}, {self.metric}): NaN; an undefined value is None."
            )


@dataclass(frozen=True)
class Missing:
    """A trial that has no result, and why: "waiting", "running", or the last error of its attempts."""

    task: str
    variant: str
    seed: int
    why: str


@dataclass
class Results:
    """The table of a study. Variants, tasks and seeds stand in the order of the specification.

    baseline     the variant that the others are compared with
    measures     by task and metric: what a metric is called, which way is better; the first of a task is its main one
    trivial      rows of what is reached without any of this; `variant` is what it is called. A task that is not drawn
                 by seed has them for the first seed alone
    drawn        tasks whose test instances are others for each seed: instances of two seeds are not the same there
    parameters   by task and variant: how many numbers were trained
    seconds      by task and variant: the mean wall time of a trial
    missing      trials without a result; a table that has such says so
    judged       what judges found of each trained model: task, variant, seed, and findings by test as JSON
    lengths      by task, variant and length of the input ("2-11"): the main metric of each seed, where it was asked
    """

    study: str
    baseline: str
    tasks: tuple[str, ...]
    variants: tuple[str, ...]
    seeds: tuple[int, ...]
    measures: dict[str, dict[str, Measure]]
    rows: list[Row] = field(default_factory=list)
    trivial: list[Row] = field(default_factory=list)
    drawn: frozenset[str] = frozenset()
    parameters: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    judged: list[dict[str, Any]] = field(default_factory=list)
    lengths: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)

    def main(self, task: str) -> str:
        """The name of a task's main metric."""
        return next(iter(self.measures[task]))

    def values(self, task: str, variant: str, metric: str) -> dict[int, float]:
        """By seed, in order; without those that are missing or undefined."""
        return {row.seed: row.value for row in self._of(task, variant, metric) if row.value is not None}

    def scores(self, task: str, variant: str, metric: str) -> dict[int, tuple[float, ...]]:
        """By seed, in order; without those that have no scores of instances."""
        return {row.seed: row.scores for row in self._of(task, variant, metric) if row.scores is not None}

    def _of(self, task: str, variant: str, metric: str) -> list[Row]:
        found = [row for row in self.rows if (row.task, row.variant, row.metric) == (task, variant, metric)]
        return sorted(found, key=lambda row: row.seed)

    def to_json(self, indent: int | None = None) -> str:
        """The same results give the same bytes; `from_json` gives equal results back."""
        plain = asdict(self) | {"version": VERSION, "drawn": sorted(self.drawn)}
        return json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Results":
        plain = json.loads(text)
        if not isinstance(plain, dict) or plain.pop("version", None) != VERSION:
            raise ValueError(f"This text holds no results of version {VERSION}: expected what to_json() writes.")
        plain["measures"] = {
            task: {name: Measure(**one) for name, one in found.items()} for task, found in plain["measures"].items()
        }
        lists = {name: tuple(plain[name]) for name in ("tasks", "variants", "seeds")}
        missing = tuple(Missing(**one) for one in plain["missing"])
        rows = {name: _rows(plain[name]) for name in ("rows", "trivial")}
        return cls(**plain | lists | rows | {"drawn": frozenset(plain["drawn"]), "missing": missing})


def _rows(plain: Iterable[Mapping[str, Any]]) -> list[Row]:
    return [Row(**{**one, "scores": None if one["scores"] is None else tuple(one["scores"])}) for one in plain]
