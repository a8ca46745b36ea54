"""Statistics of instances that intervals are asked for; what is undefined is left out."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

Statistic = Callable[[np.ndarray], float]


def mean(values: np.ndarray) -> float:
    """The mean of what is defined; NaN where nothing is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def median(values: np.ndarray) -> float:
    """The median of what is defined; NaN where nothing is."""
    defined = values[~np.isnan(values)]
    return float(np.median(defined)) if defined.size else float("nan")


def quartile(share: float) -> Statistic:
    """The number below which a share of what is defined lies; NaN where nothing is."""

    def statistic(values: np.ndarray) -> float:
        defined = values[~np.isnan(values)]
        return float(np.quantile(defined, share)) if defined.size else float("nan")

    return statistic


def known(values: ArrayLike, statistic: Statistic = mean) -> float | None:
    """A statistic without an interval, for a number that stands beside another; None where it is undefined."""
    table = np.asarray(values, dtype=np.float64)
    found = statistic(table) if table.size else float("nan")
    return None if np.isnan(found) else found


def over_seeds(table: np.ndarray, statistic: Statistic) -> np.ndarray:
    """(seeds, instances, ...) -> (seeds,): the statistic of each seed, NaN where it has none."""
    if table.shape[1] == 0:
        return np.full(len(table), np.nan)
    return np.array([float(statistic(instances)) for instances in table])
