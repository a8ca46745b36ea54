"""One variant compared with the baseline, on one task, by one metric."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.judging.statistics.intervals import Estimate, estimate
from regard.judging.statistics.sign_flip import sign_flip, smallest_p

from .effects import Effect, effect
from .improvement import probability_of_improvement
from .power import smallest_effect
from .power_check import FEWEST

Verdict = Literal["better", "worse", "no significant difference", "underpowered", "not tested"]


@dataclass(frozen=True)
class Comparison:
    """Paired differences, variant minus baseline, over the seeds that both have.

    means        of the variant and of the baseline over these seeds
    seeds        how many pairs: seeds, or splits of the data where several seeds have one
    difference   their difference, with an interval over what `resampled` names; no interval below 6 seeds
    deviation    standard deviation of the differences over seeds
    p, adjusted  of the sign-flip test (of overlapping splits the larger of it and Nadeau & Bengio's), and after Holm's
                 correction for `comparisons`; None where it was not tested
    effect       standardised effect size; None if undefined
    improvement  the probability that a run of the variant is better than one of the baseline
    visible      the smallest difference that is detected with power .8; infinite if none is
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
        """Whether any outcome could have been significant."""
        return smallest_p(self.seeds, self.comparisons) <= self.alpha

    @property
    def visible(self) -> float:
        return (
            smallest_effect(self.seeds, self.comparisons, self.alpha) * self.deviation if self.reachable else math.inf
        )

    @property
    def verdict(self) -> Verdict:
        """The conclusion that the test supports; "no significant difference" does not mean equality."""
        if self.adjusted is None:
            return "not tested"
        if not self.reachable:
            return "underpowered"
        if self.adjusted > self.alpha:
            return "no significant difference"
        return "better" if (self.means[0] > self.means[1]) == self.higher else "worse"


def paired(
    values: Mapping[int, float],
    base: Mapping[int, float],
    scores: Mapping[int, Sequence[float]] | None = None,
    base_scores: Mapping[int, Sequence[float]] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Differences (seeds,) over the common seeds, in order; and (seeds, instances) if both have instance scores.

    Differences by instance are returned only if their means are the values: corpus BLEU is not the mean of sentence
    scores, and resampling these would give an interval of something else.
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
    means = np.array([[values[seed], base[seed]] for seed in both])
    if not np.allclose(each.mean(-1), means, rtol=1e-5, atol=1e-7):
        return whole, None
    return whole, each[:, 0] - each[:, 1]


def interval(
    whole: np.ndarray,
    each: np.ndarray | None = None,
    *,
    overlap: float = 0.0,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The mean difference with Student's interval; no interval below 6 seeds.

        mean +- t sqrt(1 / s + overlap) deviation,    t with s - 1 degrees

    whole (seeds,): over seeds. each (seeds, instances): over seeds and instances, crossed (`crossed_error`).
    overlap: test over training instances where the seeds divide one set of data: s overlapping splits carry less
    information than s independent ones. Nadeau & Bengio 2003.
    """
    s = len(whole)
    table = whole[:, None] if each is None else each
    if s < FEWEST:
        return Estimate(float(table.mean()) if table.size else None, None, table.shape[1], level=level)
    if not overlap:
        return estimate(table, seeds=True, level=level, seed=seed)
    half = _half_width(whole, overlap, level)
    centre = float(whole.mean())
    return Estimate(centre, (centre - half, centre + half), 1, level=level, method="corrected t of overlapping splits")


def corrected_p(whole: np.ndarray, overlap: float) -> float:
    """Two-sided p of the corrected resampled t test: corrected for overlapping splits."""
    from scipy.stats import t

    s, error = len(whole), math.sqrt(1 / len(whole) + overlap) * float(whole.std(ddof=1)) if len(whole) > 1 else 0.0
    if error == 0:
        return float(whole.mean() == 0) if s > 1 else 1.0
    return 2 * float(t.sf(abs(float(whole.mean())) / error, s - 1))


def _half_width(whole: np.ndarray, overlap: float, level: float) -> float:
    from scipy.stats import t

    s = len(whole)
    return float(t.isf((1 - level) / 2, s - 1)) * math.sqrt(1 / s + overlap) * float(whole.std(ddof=1))


def by_split(values: Mapping[int, float], splits: int) -> dict[int, float]:
    """Values by split, the mean over the seeds that share one: a split that is used twice is one split."""
    found: dict[int, list[float]] = {}
    for seed, value in values.items():
        found.setdefault(seed % splits, []).append(value)
    return {split: float(np.mean(some)) for split, some in sorted(found.items())}


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
    overlap: float = 0.0,
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
        interval(whole, each, overlap=overlap, seed=seed),
        "overlapping splits" if overlap else "seeds" if each is None else "seeds and instances",
        float(whole.std(ddof=1)) if len(whole) > 1 else math.nan,
        effect(whole),
        better,
        p=max(float(sign_flip(whole, seed)), corrected_p(whole, overlap) if overlap else 0.0),
    )
