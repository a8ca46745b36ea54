"""A board: variants ranked over the tasks of one study or several, with intervals and cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..models.training.experiment import Measure
from .results import Results
from .statistics.comparison import by_split
from .statistics.ranks import Ranks, ranks


@dataclass(frozen=True)
class Cell:
    """A variant on a task.

    value      mean of the main metric over seeds (over splits, where seeds share them)
    interval   of 95 %, Student's t over those; wider where splits overlap (Nadeau & Bengio 2003); None for one value
    rank       among the variants of this task, 1 is best; equal values share the mean of theirs
    parameters, seconds   of a training, the mean over seeds
    tuned      the configuration that tuning chose, how many were tried, and the seconds that took
    trials     of `Results.trials`, each with its `value` and the judges' findings, `judged`
    """

    value: float
    interval: tuple[float, float] | None
    seeds: int
    rank: float
    parameters: int | None
    seconds: float | None
    tuned: dict[str, Any] | None
    trials: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class BoardTask:
    """A column: a task of a study and its main metric. trivial: the best trivial baseline by name and value."""

    study: str
    name: str
    label: str
    measure: Measure
    trivial: tuple[str, float] | None


@dataclass(frozen=True)
class Board:
    """Variants, best first, by mean rank over the tasks that all of them have run; the others last.

    ranks   those of `statistics.ranks`; None with fewer than two variants or no task that all have run
    cost    by variant: core-hours (GPU-hours on a GPU) of all its trainings, tuning included
    """

    studies: tuple[str, ...]
    variants: tuple[str, ...]
    tasks: tuple[BoardTask, ...]
    cells: dict[tuple[str, int], Cell]
    ranks: Ranks | None
    shared: tuple[int, ...]
    cost: dict[str, float] = field(default_factory=dict)

    def of(self, variant: str, place: int) -> Cell | None:
        """The cell of a variant in the column `place`."""
        return self.cells.get((variant, place))

    def mean_rank(self, variant: str) -> float | None:
        if self.ranks is None or variant not in self.ranks.variants:
            return None
        return self.ranks.average[self.ranks.variants.index(variant)]

    @property
    def says(self) -> str:
        """The conclusion from the ranks, in a sentence or two."""
        found, count = self.ranks, len(self.shared)
        if found is None or count < 2:
            return "Ranks need two variants and two tasks that both have run."
        first = min(zip(found.average, found.variants, strict=True))
        says = f"{first[1]} has the best mean rank, {first[0]:.2f} of {len(found.variants)}, over {count} tasks."
        near = [name for group in found.groups if first[1] in group for name in group if name != first[1]]
        if found.p_f is None or found.p_f > ALPHA:
            p = "" if found.p_f is None else f" (p = {found.p_f:.2g})"
            return f"{says} But the variants do not differ significantly by Friedman's test{p}."
        if not near:
            return f"{says} Every other variant is significantly worse (Nemenyi, p < .05)."
        return f"{says} Not significantly different from it (Nemenyi): {', '.join(dict.fromkeys(near))}."


ALPHA = 0.05


def board(studies: Sequence[Results]) -> Board:
    """The board of one study or several; a task of two studies is two columns."""
    if not studies:
        raise ValueError("board() needs the results of one study at least.")
    names = [task for results in studies for task in results.tasks]
    tasks: list[BoardTask] = []
    cells: dict[tuple[str, int], Cell] = {}
    for results in studies:
        for task in results.tasks:
            place, main = len(tasks), results.main(task)
            label = f"{task} ({results.study})" if names.count(task) > 1 else task
            measure = results.measures[task][main]
            tasks.append(BoardTask(results.study, task, label, measure, _trivial(results, task)))
            for variant, cell in _cells(results, task, measure).items():
                cells[variant, place] = cell
    variants = tuple(dict.fromkeys(name for results in studies for name in results.variants))
    variants = tuple(name for name in variants if any((name, place) in cells for place in range(len(tasks))))
    shared = tuple(place for place in range(len(tasks)) if all((name, place) in cells for name in variants))
    found = None
    if len(variants) > 1 and shared:
        signs = [1.0 if tasks[place].measure.higher else -1.0 for place in shared]
        table = [[cells[name, place].value for place in shared] for name in variants]
        found = ranks(np.array(table) * signs, variants)
    order = dict(zip(variants, found.average, strict=True)) if found else dict.fromkeys(variants, 0.0)
    cost = {name: sum(_hours(cell) for (variant, _), cell in cells.items() if variant == name) for name in variants}
    return Board(
        tuple(dict.fromkeys(results.study for results in studies)),
        tuple(sorted(variants, key=order.__getitem__)),
        tuple(tasks),
        cells,
        found,
        shared,
        cost,
    )


def _cells(results: Results, task: str, measure: Measure) -> dict[str, Cell]:
    """Cells by variant; those without a value are left out."""
    from scipy.stats import rankdata

    main, splits = results.main(task), results.splits.get(task, 0)
    by_seed = {variant: results.values(task, variant, main) for variant in results.variants}
    by_seed = {variant: found for variant, found in by_seed.items() if found}
    if not by_seed:
        return {}
    means = np.array([np.mean(list(found.values())) for found in by_seed.values()])
    placed = dict(zip(by_seed, rankdata(-means if measure.higher else means), strict=True))
    made = {}
    for variant, found in by_seed.items():
        values = np.array(list((by_split(found, splits) if splits else found).values()))
        trials = [one for one in results.trials if (one["task"], one["variant"]) == (task, variant)]
        judged = {
            one["seed"]: one["tests"] for one in results.judged if (one["task"], one["variant"]) == (task, variant)
        }
        made[variant] = Cell(
            float(values.mean()),
            _interval(values, results.overlap.get(task, 0.0)),
            len(found),
            float(placed[variant]),
            results.parameters.get(task, {}).get(variant),
            results.seconds.get(task, {}).get(variant),
            results.tuned.get(task, {}).get(variant),
            tuple(
                one | {"value": found[one["seed"]], "judged": judged.get(one["seed"], [])}
                for one in sorted(trials, key=lambda one: one["seed"])
                if one["seed"] in found
            ),
        )
    return made


def _interval(values: np.ndarray, overlap: float) -> tuple[float, float] | None:
    """mean +- t s sqrt(1 / n + overlap)."""
    from scipy.stats import t

    n = len(values)
    if n < 2 or not values.std(ddof=1):
        return None
    half = float(t.isf(0.025, n - 1)) * float(values.std(ddof=1)) * math.sqrt(1 / n + overlap)
    return float(values.mean()) - half, float(values.mean()) + half


def _trivial(results: Results, task: str) -> tuple[str, float] | None:
    main = results.main(task)
    by_name: dict[str, list[float]] = {}
    for row in results.trivial:
        if (row.task, row.metric) == (task, main) and row.value is not None:
            by_name.setdefault(row.variant, []).append(row.value)
    means = {name: float(np.mean(values)) for name, values in by_name.items()}
    if not means:
        return None
    best = (max if results.measures[task][main].higher else min)(means, key=means.__getitem__)
    return best, means[best]


def _hours(cell: Cell) -> float:
    trained = sum(float(one["seconds"] or 0.0) for one in cell.trials) or (cell.seconds or 0.0) * cell.seeds
    return (trained + float((cell.tuned or {}).get("seconds", 0.0))) / 3600
