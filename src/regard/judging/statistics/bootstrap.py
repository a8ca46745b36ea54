"""The bootstrap of any statistic, and of several seeds that met the same instances."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from .statistic import Statistic, mean, over_seeds
from .streams import stream

Ends = tuple[float, float]


def resampled(
    size: int,
    figure: Callable[[np.ndarray], float],
    *,
    strata: ArrayLike | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> np.ndarray:
    """(resamples,): a figure of places (n,) that are drawn with replacement; within each stratum where there are such.

    strata   (n,) names of classes: a resample has as many of each, so that no rare class is lost
    """
    draw = stream(seed, "bootstrap")
    if strata is None:
        return np.array([figure(draw.integers(size, size=size)) for _ in range(resamples)])
    groups = [np.flatnonzero(np.asarray(strata) == one) for one in np.unique(np.asarray(strata))]
    return np.array(
        [
            figure(np.concatenate([one[draw.integers(len(one), size=len(one))] for one in groups]))
            for _ in range(resamples)
        ]
    )


def percentile_interval(drawn: np.ndarray, n: int, level: float = 0.95) -> Ends | None:
    """The middle of the resampled figures, at the wider level at which it is Student's interval for normal values.

        1 - 2 Phi(-sqrt(n / (n - 1)) t),    t the quantile of Student's t with n - 1 degrees at `level`

    None where it is undefined in more than half of the resamples, or the same in all of them. Hesterberg 2015.
    """
    from scipy.stats import norm, t

    found = drawn[~np.isnan(drawn)]
    if n < 2 or 2 * len(found) < len(drawn) or np.ptp(found) == 0 or not np.isfinite(found).all():
        return None
    tail = float(norm.cdf(-math.sqrt(n / (n - 1)) * t.isf((1 - level) / 2, n - 1)))
    low, high = np.quantile(found, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def percentile_p(drawn: np.ndarray, n: int, null: float = 0.0) -> float:
    """Twice the share of resampled figures beyond `null`, widened as the interval is."""
    from scipy.stats import norm, t

    found = drawn[~np.isnan(drawn)]
    if n < 2 or 2 * len(found) < len(drawn):
        return 1.0
    beyond = 1 + min(int((found <= null).sum()), int((found >= null).sum()))
    z = float(norm.isf(min(0.5, beyond / (len(found) + 1))))
    return min(1.0, 2 * float(t.sf(z * math.sqrt((n - 1) / n), n - 1)))


def crossed_error(
    by_seed: np.ndarray, table: np.ndarray, figure: Statistic, plain: bool, resamples: int = 2000, seed: int = 0
) -> tuple[float, int]:
    """The standard error over seeds and instances, and its degrees of freedom: those of the fewer of the two, less one.

        se^2 = s_seeds^2 / K + s_instances^2 / n

    by_seed (K,) the figure of each seed, table (K, n, ...); plain: the figure is the mean of (K, n). What seeds and
    instances share is counted in both terms, so that the interval is too wide rather than too narrow.
    """
    whole = by_seed[~np.isnan(by_seed)]
    k, n = len(whole), table.shape[1]
    seeds = float(whole.var(ddof=1)) / k if k > 1 else math.nan
    if n < 2:
        return math.sqrt(seeds), k - 1
    if plain:
        each = np.nanmean(table[:, ~np.isnan(table).all(0)], axis=0)
        instances = float(each.var(ddof=1)) / len(each) if len(each) > 1 else 0.0
    else:
        drawn = resampled(n, lambda places: mean(over_seeds(table[:, places], figure)), resamples=resamples, seed=seed)
        instances = float(np.nanvar(drawn, ddof=1)) * n / (n - 1)
    return math.sqrt(seeds + instances), min(k, n) - 1
