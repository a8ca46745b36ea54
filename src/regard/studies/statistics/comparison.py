"""One variant beside the baseline, on one task, by one metric."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.judging.statistics.intervals import Estimate, estimate

from .effects import Effect, effect
from .improvement import probability_of_improvement
from .power import smallest_effect
from .power_check import FEWEST
from .sign_flip import sign_flip, smallest_p

Verdict = Literal["better", "worse", "no difference found", "cannot be told", "not tested"]
RESAMPLES = 2000


@dataclass(frozen=True)
class Comparison:
    """Paired differences, variant minus baseline, over the seeds that both have.

    means        of the variant and of the baseline over these seeds
    difference   their difference, with the interval that resamples what `resampled` says; None below 6 seeds
    deviation    of the differences between seeds
    p, adjusted  of the sign-flip test, and after Holm's correction for `comparisons`; None where it was not tested
    effect       the difference in deviations; None where it is undefined
    improvement  the chance that a run of the variant is better than one of the baseline
    visible      the smallest difference that this comparison finds with a chance of .8; infinite: none
    """

    task: str
    metric: str
    variant: str
    baseline: str
    higher: bool
    seeds: int
    means: tuple[float, float]
    difference: Estimate
    resampled: str
    deviation: float
    effect: Effect | None
    improvement: Estimate
    p: float | None = None
    adjusted: float | None = None
    comparisons: int = 1
    alpha: float = 0.05

    @property
    def reachable(self) -> bool:
        """Whether any outcome could have been called significant."""
        return smallest_p(self.seeds, self.comparisons) <= self.alpha

    @property
    def visible(self) -> float:
        return (
            smallest_effect(self.seeds, self.comparisons, self.alpha) * self.deviation if self.reachable else math.inf
        )

    @property
    def verdict(self) -> Verdict:
        """No more than the test says: a difference that was not found may be there all the same."""
        if self.adjusted is None:
            return "not tested"
        if not self.reachable:
            return "cannot be told"
        if self.adjusted > self.alpha:
            return "no difference found"
        return "better" if (self.means[0] > self.means[1]) == self.higher else "worse"


def paired(
    values: Mapping[int, float],
    base: Mapping[int, float],
    scores: Mapping[int, Sequence[float]] | None = None,
    base_scores: Mapping[int, Sequence[float]] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Differences (seeds,) over the seeds that both have, in order; and (seeds, instances) where both have such.

    Differences of instances are given only where their means are those of the values: a corpus BLEU is no mean of
    scores of sentences, and resampling these would be an interval of something else.
    """
    both = sorted(set(values) & set(base))
    whole = np.array([values[seed] - base[seed] for seed in both], dtype=np.float64)
    if not scores or not base_scores or not both:
        return whole, None
    rows = [(scores.get(seed), base_scores.get(seed)) for seed in both]
    sizes = {len(row) if row is not None else -1 for pair in rows for row in pair}
    if len(sizes) != 1 or min(sizes) < 2:
        return whole, None
    each = np.array([list(pair) for pair in rows], dtype=np.float64)  # (seeds, 2, instances)
    told = np.array([[values[seed], base[seed]] for seed in both])
    if not np.allclose(each.mean(-1), told, rtol=1e-5, atol=1e-7):
        return whole, None
    return whole, each[:, 0] - each[:, 1]


def interval(whole: np.ndarray, each: np.ndarray | None = None, *, level: float = 0.95, seed: int = 0) -> Estimate:
    """The mean difference with its bootstrap interval; none below 6 seeds.

    whole (seeds,): seeds are resampled. each (seeds, instances): seeds and instances, crossed.
    The percentile interval of few seeds is too narrow; it is taken at the wider level (Hesterberg 2015)

        1 - 2 Phi(-sqrt(s / (s - 1)) t),    t the quantile of Student's t with s - 1 degrees at `level`

    which for a mean of normal values is nearly Student's interval.
    """
    from scipy.stats import norm, t

    s = len(whole)
    table = whole[:, None] if each is None else each
    if s < FEWEST:
        return Estimate(float(table.mean()) if table.size else None, None, table.shape[1], level=level)
    wide = 1 - 2 * float(norm.cdf(-math.sqrt(s / (s - 1)) * t.isf((1 - level) / 2, s - 1)))
    found = estimate(table, seeds=True, level=wide, resamples=RESAMPLES, seed=seed)
    return Estimate(found.value, found.interval, found.n, found.undefined, level)


def compared(
    whole: np.ndarray,
    each: np.ndarray | None,
    pair: tuple[Sequence[float], Sequence[float]],
    *,
    task: str,
    metric: str,
    variant: str,
    baseline: str,
    higher: bool,
    seed: int = 0,
) -> Comparison:
    """A comparison without its test: Holm's correction needs all of a study (`analysis.analyse`)."""
    sign = 1.0 if higher else -1.0
    mine, theirs = (sign * np.asarray(x, dtype=np.float64) for x in pair)
    better = probability_of_improvement([mine], [theirs], seed=seed)
    if len(whole) < FEWEST:
        better = Estimate(better.value, None, better.n, level=better.level)
    return Comparison(
        task,
        metric,
        variant,
        baseline,
        higher,
        len(whole),
        (sign * float(mine.mean()), sign * float(theirs.mean())),
        interval(whole, each, seed=seed),
        "seeds" if each is None else "seeds and instances",
        float(whole.std(ddof=1)) if len(whole) > 1 else math.nan,
        effect(whole),
        better,
        p=float(sign_flip(whole, seed)),
    )
