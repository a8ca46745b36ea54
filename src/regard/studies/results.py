"""The results of a study as a plain table, from which statistics, tables and figures are computed."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..models.training.experiment import Measure

VERSION = 1


@dataclass(frozen=True)
class Row:
    """One metric of one trained model.

    value    None if undefined (a model without attention has no weight on the answer)
    scores   by test instance, in the order of the test split, if the metric has them: these are resampled. Their mean
             is the value for an accuracy, and need not be for others (BLEU)
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
    """A trial without a result, and why: "waiting", "running", or the error of its last attempt."""

    task: str
    variant: str
    seed: int
    why: str


@dataclass
class Results:
    """The table of a study. Variants, tasks and seeds stand in the order of the specification.

    baseline     the variant that the others are compared with
    measures     by task and metric: its label and direction; the first of a task is its main metric
    trivial      rows of the trivial baselines; `variant` is the name of the baseline. A task whose data do not depend
                 on the seed has them for the first seed alone
    drawn        tasks whose test instances depend on the seed: instances are not paired between seeds
    splits       by task, where they are fewer than seeds may be: seed i has division i % splits of the data
    overlap      by task, where seeds divide one set of data: test instances over training instances
    parameters   by task and variant: the number of trained parameters
    seconds      by task and variant: the mean wall time of a trial
    missing      trials without a result; tables list them
    judged       findings of the judges on each trained model: task, variant, seed, and findings by test as JSON
    tuned        by task and variant: the configuration that tuning chose, its validation measure, how many were tried
    trials       what each trained model took: task, variant, seed, seconds, parameters, memory, and where the task says
                 so its validation curve, hyperparameters and notes
    lengths      by task, variant and bin of input length ("2-11"): the main metric of each seed, if the task has it
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
    splits: dict[str, int] = field(default_factory=dict)
    overlap: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    judged: list[dict[str, Any]] = field(default_factory=list)
    tuned: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    trials: list[dict[str, Any]] = field(default_factory=list)
    lengths: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)

    def main(self, task: str) -> str:
        """The name of a task's main metric."""
        return next(iter(self.measures[task]))

    def values(self, task: str, variant: str, metric: str) -> dict[int, float]:
        """By seed, in order; missing and undefined values are left out."""
        return {row.seed: row.value for row in self._of(task, variant, metric) if row.value is not None}

    def scores(self, task: str, variant: str, metric: str) -> dict[int, tuple[float, ...]]:
        """By seed, in order; seeds without instance scores are left out."""
        return {row.seed: row.scores for row in self._of(task, variant, metric) if row.scores is not None}

    def _of(self, task: str, variant: str, metric: str) -> list[Row]:
        found = [row for row in self.rows if (row.task, row.variant, row.metric) == (task, variant, metric)]
        return sorted(found, key=lambda row: row.seed)

    def to_json(self, indent: int | None = None) -> str:
        """Deterministic JSON; `from_json` restores equal results."""
        plain = asdict(self) | {"version": VERSION, "drawn": sorted(self.drawn)}
        return json.dumps(plain, indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Results":
        plain = json.loads(text)
        if not isinstance(plain, dict) or plain.pop("version", None) != VERSION:
            raise ValueError(f"Not results of version {VERSION}: expected the output of Results.to_json().")
        plain["measures"] = {
            task: {name: Measure(**one) for name, one in found.items()} for task, found in plain["measures"].items()
        }
        lists = {name: tuple(plain[name]) for name in ("tasks", "variants", "seeds")}
        missing = tuple(Missing(**one) for one in plain["missing"])
        rows = {name: _rows(plain[name]) for name in ("rows", "trivial")}
        return cls(**plain | lists | rows | {"drawn": frozenset(plain["drawn"]), "missing": missing})


def _rows(plain: Iterable[Mapping[str, Any]]) -> list[Row]:
    return [Row(**{**one, "scores": None if one["scores"] is None else tuple(one["scores"])}) for one in plain]
