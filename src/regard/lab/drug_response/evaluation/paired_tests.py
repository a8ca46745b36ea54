"""Paired comparisons over folds that share their training data, corrected, with the power to see a difference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.judging.statistics.holm import holm

from ..protocol.splits import OVERLAP

LEVEL = 0.95
FEWEST = 3  # folds that a comparison or an interval needs


@dataclass(frozen=True)
class Paired:
    """A model minus its reference, over the folds that both have; lower error is better.

    difference, interval   of the mean; the interval is Student's, widened for the overlap of the training parts
    p, adjusted            corrected resampled t test, and after Holm's correction for its family
    visible                the smallest difference that is found with power .8, at this spread and this many comparisons
    """

    model: str
    reference: str
    difference: float
    interval: tuple[float, float] | None
    folds: int
    p: float
    adjusted: float
    visible: float

    @property
    def verdict(self) -> str:
        if self.adjusted > 1 - LEVEL:
            return "no significant difference"
        return "better" if self.difference < 0 else "worse"


def compare(values: Mapping[str, Mapping[int, float]], pairs: Sequence[tuple[str, str]]) -> list[Paired]:
    """One family: each (model, reference) with Holm's correction for all of them.

        t = mean / (deviation sqrt(1 / s + overlap)),    s - 1 degrees of freedom       (Nadeau & Bengio 2003)

    values   by model, errors by seed. Pairs with fewer than three folds in common are left out.
    """
    known = []
    for model, reference in pairs:
        both = sorted(set(values.get(model, {})) & set(values.get(reference, {})))
        if len(both) >= FEWEST:
            known.append((model, reference, np.array([values[model][s] - values[reference][s] for s in both])))
    p = [corrected_test(d)[1] for _, _, d in known]
    found = []
    for (model, reference, d), one, adjusted in zip(known, p, holm(p), strict=True):
        visible = smallest_visible(len(d), len(known)) * float(d.std(ddof=1))
        ends = corrected_test(d)[0]
        found.append(Paired(model, reference, float(d.mean()), ends, len(d), one, float(adjusted), visible))
    return found


def corrected_test(d: np.ndarray, overlap: float = OVERLAP) -> tuple[tuple[float, float] | None, float]:
    """The interval of the mean difference and its two-sided p; d (folds,)."""
    from scipy.stats import t

    error = math.sqrt(1 / len(d) + overlap) * float(d.std(ddof=1))
    if error == 0:
        return None, float(d.mean() == 0)
    half = float(t.isf((1 - LEVEL) / 2, len(d) - 1)) * error
    centre = float(d.mean())
    return (centre - half, centre + half), 2 * float(t.sf(abs(centre) / error, len(d) - 1))


def corrected_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The interval of a mean over folds; None below three."""
    return corrected_test(np.asarray(values))[0] if len(values) >= FEWEST else None


def smallest_visible(
    folds: int, comparisons: int = 1, overlap: float = OVERLAP, power: float = 0.8, alpha: float = 1 - LEVEL
) -> float:
    """The smallest difference that the corrected test finds with this power, in standard deviations over folds.

    At Holm's first step, alpha / comparisons: a lower bound of the power. Inf below two folds.
    """
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    if folds < 2:
        return math.inf
    bound = float(t.isf(alpha / max(1, comparisons) / 2, folds - 1))
    high = 2 * bound + 10
    shift = brentq(lambda shift: float(nct.sf(bound, folds - 1, shift)) - power, 0.0, high, xtol=1e-6)
    return float(shift) * math.sqrt(1 / folds + overlap)
