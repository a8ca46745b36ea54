"""Power analysis: the power of a paired comparison, and its minimum detectable effect."""

import math

from regard.judging.statistics.sign_flip import EXACT, smallest_p


def attained_level(seeds: int, comparisons: int = 1, alpha: float = 0.05) -> float:
    """The largest level, alpha / comparisons or below, at which the sign-flip test can reject: p has steps of 2 / 2^s.

    0 if it can never reject.
    """
    wanted = alpha / comparisons
    if smallest_p(seeds) > wanted:
        return 0.0
    step = smallest_p(seeds) if seeds <= EXACT else 0.0
    return math.floor(wanted / step + 1e-9) * step if step else wanted


def power(effect: float, seeds: int, comparisons: int = 1, alpha: float = 0.05) -> float:
    """The power to detect a difference of `effect` standard deviations over seeds.

        P(|T| > t),    T noncentral t with s - 1 degrees and noncentrality effect * sqrt(s)

    Of the paired t test, at the level that the sign-flip test attains; for normal differences the two have nearly the
    same power. With several comparisons, that of Holm's first step: a lower bound.
    """
    from scipy.stats import nct, t

    level = attained_level(seeds, comparisons, alpha)
    if seeds < 2 or level <= 0.0:
        return 0.0
    bound, shift = float(t.isf(level / 2, seeds - 1)), abs(effect) * math.sqrt(seeds)
    far = float(nct.cdf(-bound, seeds - 1, shift))
    return float(nct.sf(bound, seeds - 1, shift)) + (0.0 if math.isnan(far) else far)


def smallest_effect(seeds: int, comparisons: int = 1, alpha: float = 0.05, chance: float = 0.8) -> float:
    """The minimum detectable effect, in standard deviations over seeds, at power `chance`; inf if there is none."""
    from scipy.optimize import brentq

    if not 0 < alpha < chance < 1:
        raise ValueError(f"smallest_effect(alpha={alpha}, chance={chance}): expected 0 < alpha < chance < 1.")
    if seeds < 2 or attained_level(seeds, comparisons, alpha) <= 0.0:
        return math.inf
    high = 1.0
    while power(high, seeds, comparisons, alpha) < chance:
        high *= 2.0
    return float(brentq(lambda effect: power(effect, seeds, comparisons, alpha) - chance, 0.0, high, xtol=1e-9))
