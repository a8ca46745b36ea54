"""The interval of a statistic, over instances and over seeds: which one is decided by what is known beforehand."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .bootstrap import crossed_error, percentile_interval, resampled
from .means import betting_interval, mean_interval
from .scale import FEWEST, Scale, checked
from .shares import clopper_pearson, median_interval
from .statistic import Statistic, known, mean, median, over_seeds, quartile
from .streams import stream

__all__ = ["Estimate", "Statistic", "estimate", "known", "mean", "median", "quartile", "stream"]

Ends = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A statistic with its interval.

    value      None where it is undefined: nothing was measured, or the statistic is not a number
    interval   (low, high), or None: one instance, or values that are all the same, tell nothing of the spread
    n          instances that were measured
    undefined  instances left out, because the measure is undefined (NaN) on them for every seed
    method     how the interval was made
    """

    value: float | None
    interval: Ends | None
    n: int
    undefined: int = 0
    level: float = 0.95
    method: str = ""


def estimate(
    values: ArrayLike,
    statistic: Statistic = mean,
    *,
    seeds: bool = False,
    scale: Scale = "real",
    strata: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """A statistic of instances, and an interval that holds the truth as often as `level` says.

    values     (instances, ...), or with seeds=True (seeds, instances, ...): every seed met the same instances.
               NaN says that a measure is undefined on an instance
    statistic  of (instances, ...); over several seeds it is taken for each and averaged. A figure of a whole corpus is
               a statistic of the counts of each instance: lambda x: x[:, 0].sum() / x[:, 1].sum()
    scale      what is known of the measure (`scale.checked`): "share", bounds (low, high), "real" or "skewed"
    strata     (instances,) classes that a resample has as often as the data: for figures that average over classes

    The interval is chosen by these alone, never by the values:

        a share                 Clopper & Pearson
        a mean                  the wider of t and bootstrap-t; between bounds and below 30 instances, by betting
        a median                between two values in order
        another statistic       the percentiles of its bootstrap, expanded as t is
        over seeds              t with one degree less than seeds or instances, whichever are fewer

    The same values and the same `seed` give the same bits, and two calls with equally many instances draw the same
    ones. For two systems on the same instances, see `compare`.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim < 1 + seeds:
        axes = "(seeds, instances, ...)" if seeds else "(instances, ...)"
        raise ValueError(f"estimate(values of shape {table.shape}): expected {axes}.")
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"estimate(level={level}, resamples={resamples}): expected 0 < level < 1 and resamples >= 1.")
    checked(scale)
    if seeds and len(table) == 1:
        table, seeds = table[0], False
    whole = table if seeds else table[None]
    n = whole.shape[1]
    missing = int(np.isnan(whole).reshape(*whole.shape[:2], -1).any(-1).all(0).sum()) if whole.size else 0
    by_seed = over_seeds(whole, statistic)
    value = known(by_seed)
    if value is None:
        return Estimate(None, None, n - missing, missing, level)
    if seeds:
        made = _of_seeds(by_seed, whole, statistic, level, resamples, seed)
        bounds = (0.0, 1.0) if scale == "share" else scale
        if made[0] is not None and isinstance(bounds, tuple):
            made = (max(made[0][0], bounds[0]), min(made[0][1], bounds[1])), made[1]
    else:
        made = _of_instances(table, statistic, scale, strata, level, resamples, seed)
    return Estimate(value, made[0], n - missing, missing, level, made[1])


def _of_instances(
    table: np.ndarray,
    statistic: Statistic,
    scale: Scale,
    strata: ArrayLike | None,
    level: float,
    resamples: int,
    seed: int,
) -> tuple[Ends | None, str]:
    if table.ndim == 1 and statistic in (mean, median):
        some = table[~np.isnan(table)]
        if statistic is median:
            return median_interval(some, level), "order statistics"
        if scale == "share":
            if not np.isin(some, (0, 1)).all():
                raise ValueError("estimate(scale='share'): expected values of 0 and 1 alone.")
            return clopper_pearson(int(some.sum()), len(some), level), "Clopper-Pearson"
        if isinstance(scale, tuple) and len(some) < FEWEST["skewed"]:
            return betting_interval(some, *scale, level=level) if len(some) > 1 else None, "betting"
        if not np.isfinite(some).all():
            return None, "none: some value is infinite"
        ends = mean_interval(some, level, resamples, seed)
        if isinstance(scale, tuple):
            if ends is None:  # values that are all the same have no t
                return betting_interval(some, *scale, level=level), "betting"
            ends = max(ends[0], scale[0]), min(ends[1], scale[1])
        return ends, "t and bootstrap-t"
    figure = lambda places: float(statistic(table[places]))  # noqa: E731
    drawn = resampled(len(table), figure, strata=strata, resamples=(resamples + 1) // 2, seed=seed)
    how = "bootstrap" if strata is None else "bootstrap within classes"
    return percentile_interval(drawn, len(table), level), how


def _of_seeds(
    by_seed: np.ndarray, table: np.ndarray, statistic: Statistic, level: float, resamples: int, seed: int
) -> tuple[Ends | None, str]:
    from scipy.stats import t

    if (~np.isnan(by_seed)).sum() < 2 or not np.isfinite(by_seed[~np.isnan(by_seed)]).all():
        return None, "none: one seed has a value"
    error, freedom = crossed_error(by_seed, table, statistic, statistic is mean and table.ndim == 2, resamples, seed)
    if error == 0:
        return None, "none: every seed has the same value"
    half = float(t.isf((1 - level) / 2, freedom)) * error
    centre = mean(by_seed)
    return (centre - half, centre + half), "t over seeds and instances" if table.shape[1] > 1 else "t over seeds"
