"""A whole study: every variant beside the baseline on every task, corrected together; ranks across tasks."""

from dataclasses import dataclass, replace

import numpy as np

from regard.judging.statistics.intervals import Estimate

from ..results import Results
from .comparison import Comparison, compared, paired
from .holm import holm
from .improvement import probability_of_improvement
from .power_check import FEWEST, PowerCheck, foretell
from .ranks import Ranks, ranks


@dataclass(frozen=True)
class Analysis:
    """What the statistics say of a study.

    comparisons   by the main metric of each task: tested, and corrected for all of them together
    others        by the other metrics: differences with intervals, not tested (`p` is None)
    ranks         across tasks that every variant has run; None with fewer than two variants
    improvement   by variant: the chance to be better than the baseline on a task drawn at random
    lacking       (task, variant) that have no seed in common with the baseline
    """

    results: Results
    baseline: str
    foretold: PowerCheck
    comparisons: tuple[Comparison, ...]
    others: tuple[Comparison, ...]
    ranks: Ranks | None
    improvement: dict[str, Estimate]
    lacking: tuple[tuple[str, str], ...] = ()

    def of(self, task: str) -> tuple[Comparison, ...]:
        return tuple(each for each in self.comparisons if each.task == task)


def analyse(results: Results, baseline: str | None = None, *, alpha: float = 0.05, seed: int = 0) -> Analysis:
    """Every variant beside the baseline (the study's own unless another is named).

    One family of tests a study: the main metric of each task, all variants. What was counted before the study ran is
    corrected for, whether or not a trial is missing. The same results and seed give the same bits.
    """
    base = results.baseline if baseline is None else baseline
    if base not in results.variants:
        raise ValueError(f"analyse(baseline={base!r}): expected one of {', '.join(results.variants)}.")
    others = tuple(name for name in results.variants if name != base)
    if not others:
        raise ValueError(f"The study {results.study!r} has one variant, {base!r}: there is nothing to compare it with.")
    count = len(results.tasks) * len(others)
    found: list[Comparison] = []
    beside: list[Comparison] = []
    lacking = []
    for task in results.tasks:
        for variant in others:
            for metric, measure in results.measures[task].items():
                one = _one(results, task, metric, variant, base, measure.higher, seed)
                if metric != results.main(task):
                    beside += [replace(one, p=None)] if one is not None else []
                elif one is None:
                    lacking.append((task, variant))
                else:
                    found.append(replace(one, comparisons=count, alpha=alpha))
    known = np.array([one.p for one in found] + [1.0] * (count - len(found)))
    adjusted = holm(known)[: len(found)]
    tested = tuple(replace(one, adjusted=float(p)) for one, p in zip(found, adjusted, strict=True))
    return Analysis(
        results,
        base,
        foretell(len(results.seeds), count, alpha),
        tested,
        tuple(beside),
        _ranks(results, alpha),
        _improvement(results, base, others, seed),
        tuple(lacking),
    )


def _one(
    results: Results, task: str, metric: str, variant: str, base: str, higher: bool, seed: int
) -> Comparison | None:
    mine, theirs = (results.values(task, name, metric) for name in (variant, base))
    scores = [None if task in results.drawn else results.scores(task, name, metric) for name in (variant, base)]
    whole, each = paired(mine, theirs, *scores)
    if not len(whole):
        return None
    both = sorted(set(mine) & set(theirs))
    pair = ([mine[s] for s in both], [theirs[s] for s in both])
    return compared(
        whole, each, pair, task=task, metric=metric, variant=variant, baseline=base, higher=higher, seed=seed
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
