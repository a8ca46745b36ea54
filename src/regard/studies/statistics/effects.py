"""Effect sizes of paired differences, in standard deviations over seeds."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Effect:
    """d: mean difference over standard deviation (Cohen); g: without small-sample bias (Hedges), with an interval."""

    d: float
    g: float
    interval: tuple[float, float] | None


def effect(differences: ArrayLike, level: float = 0.95) -> Effect | None:
    """Cohen's d of paired differences and Hedges' g.

        d = mean / deviation,    g = J d,    J = Gamma(f / 2) / (sqrt(f / 2) Gamma((f - 1) / 2)),    f = s - 1

    differences (seeds,)  ->  Effect; None if undefined: fewer than two seeds, or all differences equal

    The interval inverts the noncentral t test: all delta for which the observed t is not extreme. Exact for normal
    differences. Hedges 1981; Cumming and Finch 2001. With two seeds J is undefined and g = d.
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1:
        raise ValueError(f"effect(differences of shape {d.shape}): expected (seeds,).")
    s = d.size
    if s < 2 or not (deviation := float(d.std(ddof=1))) > 1e-12 * float(np.abs(d).max()):
        return None
    size, f = float(d.mean()) / deviation, s - 1
    j = 1.0 if f < 2 else math.exp(math.lgamma(f / 2) - math.lgamma((f - 1) / 2)) / math.sqrt(f / 2)
    low, high = _noncentrality_interval(size * math.sqrt(s), f, level)
    return Effect(size, j * size, (j * low / math.sqrt(s), j * high / math.sqrt(s)))


def _noncentrality_interval(t: float, f: int, level: float) -> tuple[float, float]:
    """The noncentralities at which t is the upper and the lower quantile."""
    from scipy.optimize import brentq

    def solve(quantile: float) -> float:
        def miss(delta: float) -> float:
            return nct_cdf(t, f, delta) - quantile

        reach = 5.0 + abs(t)  # cdf falls as delta grows
        low, high = t - reach, t + reach
        while miss(low) < 0:
            low -= reach
        while miss(high) > 0:
            high += reach
        return float(brentq(miss, low, high, xtol=1e-9))

    return solve((1 + level) / 2), solve((1 - level) / 2)


def nct_cdf(t: float, f: int, delta: float) -> float:
    """P(T <= t) of a noncentral t: the mean of Phi(t u - delta), where f u^2 is chi-squared with f degrees.

    Where scipy returns NaN (large t), the mean is integrated numerically, in two parts that meet where Phi is 1/2.
    """
    from scipy.integrate import quad
    from scipy.stats import chi2, nct, norm

    found = float(nct.cdf(t, f, delta))
    if not math.isnan(found):
        return found
    low, high = (math.sqrt(chi2.ppf(p, f) / f) for p in (1e-15, 1 - 1e-15))
    middle = min(max(delta / t, low), high) if t else high
    part = [
        quad(lambda u: norm.cdf(t * u - delta) * 2 * f * u * chi2.pdf(f * u * u, f), *ends, epsabs=1e-12)[0]
        for ends in ((low, middle), (middle, high))
    ]
    return min(1.0, sum(part))
