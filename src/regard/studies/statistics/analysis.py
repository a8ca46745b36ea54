"""A whole study: every variant against the baseline on every task, jointly corrected; ranks across tasks."""

from dataclasses import dataclass, replace

import numpy as np

from regard.judging.statistics.holm import holm
from regard.judging.statistics.intervals import Estimate

from ..results import Results
from .comparison import Comparison, by_split, compared, paired
from .improvement import probability_of_improvement
from .power_check import FEWEST, PowerCheck, check_power
from .ranks import Ranks, ranks


@dataclass(frozen=True)
class Analysis:
    """The statistics of a study.

    power         what a study of this size can detect
    comparisons   by the main metric of each task: tested, and corrected jointly
    others        by the other metrics: differences with intervals, not tested (`p` is None)
    ranks         across tasks that every variant has run; None if there is no such task
    improvement   by variant: the probability of improvement over the baseline on a random task
    lacking       (task, variant) without a seed in common with the baseline
    """

    results: Results
    baseline: str
    power: PowerCheck
    comparisons: tuple[Comparison, ...]
    others: tuple[Comparison, ...]
    ranks: Ranks | None
    improvement: dict[str, Estimate]
    lacking: tuple[tuple[str, str], ...] = ()

    def of(self, task: str) -> tuple[Comparison, ...]:
        return tuple(each for each in self.comparisons if each.task == task)


def analyse(results: Results, baseline: str | None = None, *, alpha: float = 0.05, seed: int = 0) -> Analysis:
    """Compare every variant with the baseline (by default the study's own).

    One family of tests: the main metric of each task, all variants. The correction counts all planned comparisons,
    missing ones included. The same results and seed give the same bits.
    """
    base = results.baseline if baseline is None else baseline
    if base not in results.variants:
        raise ValueError(f"analyse(baseline={base!r}): expected one of {', '.join(results.variants)}.")
    others = tuple(name for name in results.variants if name != base)
    if not others:
        raise ValueError(f"The study {results.study!r} has one variant, {base!r}: there is nothing to compare it with.")
    count = len(results.tasks) * len(others)
    found: list[Comparison] = []
    untested: list[Comparison] = []
    lacking = []
    for task in results.tasks:
        for variant in others:
            for metric, measure in results.measures[task].items():
                one = _one(results, task, metric, variant, base, measure.higher, seed)
                if metric != results.main(task):
                    untested += [replace(one, p=None)] if one is not None else []
                elif one is None:
                    lacking.append((task, variant))
                else:
                    found.append(replace(one, comparisons=count, alpha=alpha))
    p = np.array([one.p for one in found] + [1.0] * (count - len(found)))
    adjusted = holm(p)[: len(found)]
    tested = tuple(replace(one, adjusted=float(value)) for one, value in zip(found, adjusted, strict=True))
    return Analysis(
        results,
        base,
        check_power(len(results.seeds), count, alpha),
        tested,
        tuple(untested),
        _ranks(results, alpha),
        _improvement(results, base, others, seed),
        tuple(lacking),
    )


def _one(
    results: Results, task: str, metric: str, variant: str, base: str, higher: bool, seed: int
) -> Comparison | None:
    mine, theirs = (results.values(task, name, metric) for name in (variant, base))
    overlap = results.overlap.get(task, 0.0)
    if splits := results.splits.get(task, 0):
        shared = set(mine) & set(theirs)
        mine, theirs = (by_split({s: x for s, x in one.items() if s in shared}, splits) for one in (mine, theirs))
    scores = [
        None if task in results.drawn or splits or overlap else results.scores(task, name, metric)
        for name in (variant, base)
    ]
    whole, each = paired(mine, theirs, *scores)
    if not len(whole):
        return None
    both = sorted(set(mine) & set(theirs))
    pair = ([mine[s] for s in both], [theirs[s] for s in both])
    return compared(
        whole,
        each,
        pair,
        task=task,
        metric=metric,
        variant=variant,
        baseline=base,
        higher=higher,
        overlap=overlap,
        seed=seed,
    )


def _ranks(results: Results, alpha: float) -> Ranks | None:
    columns = []
    for task in results.tasks:
        metric = results.main(task)
        sign = 1.0 if results.measures[task][metric].higher else -1.0
        values = [list(results.values(task, name, metric).values()) for name in results.variants]
        if all(values):
            columns.append([sign * float(np.mean(each)) for each in values])
    return ranks(np.array(columns).T, results.variants, alpha=alpha) if columns else None


def _improvement(results: Results, base: str, others: tuple[str, ...], seed: int) -> dict[str, Estimate]:
    made = {}
    for variant in others:
        pairs = []
        for task in results.tasks:
            metric = results.main(task)
            sign = 1.0 if results.measures[task][metric].higher else -1.0
            both = [sign * np.array(list(results.values(task, name, metric).values())) for name in (variant, base)]
            pairs += [both] if all(x.size for x in both) else []
        if pairs:
            one = probability_of_improvement([x for x, _ in pairs], [y for _, y in pairs], seed=seed)
            few = min(len(x) for pair in pairs for x in pair) < FEWEST
            made[variant] = Estimate(one.value, None, one.n, level=one.level) if few else one
    return made
