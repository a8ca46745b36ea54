"""Intervals by the bootstrap, over instances and over seeds, crossed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

Statistic = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Estimate:
    """A statistic with its interval.

    value      None where it is undefined: nothing was measured, or the statistic is not a number
    interval   (low, high), or None: one instance of one seed tells nothing of the spread
    n          instances that were measured
    undefined  instances left out, because the measure is undefined (NaN) on them for every seed
    """

    value: float | None
    interval: tuple[float, float] | None
    n: int
    undefined: int = 0
    level: float = 0.95


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose. Data drawn by default_rng(seed) share nothing with them: a random baseline that
    happens to be made of the numbers that made the data would not be random."""
    return np.random.Generator(np.random.PCG64([seed, *purpose.encode()]))


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
    """A statistic without an interval, for a baseline; None where it is undefined."""
    found = statistic(np.asarray(values, dtype=np.float64))
    return None if np.isnan(found) else found


def estimate(
    values: ArrayLike,
    statistic: Statistic = mean,
    *,
    seeds: bool = False,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """A statistic of instances, and the percentile interval of its bootstrap (Efron 1979).

    values     (instances, ...), or with seeds=True (seeds, instances, ...): every seed met the same instances.
               NaN says that a measure is undefined on an instance
    statistic  of (instances, ...); over several seeds it is taken for each and averaged. A figure of a whole corpus is
               a statistic of the counts of each instance: lambda x: x[:, 0].sum() / x[:, 1].sum()
    resamples  how often instances, and seeds, are drawn with replacement

    Seeds and instances are crossed: each resample draws a set of seeds and, apart from it, a set of instances that all
    of them share, since two models that meet the same hard instance do not err independently (Owen 2007). A few seeds
    give a narrow interval: with s of them its variance over seeds is (s - 1) / s of what it should be.

    The same values and the same `seed` give the same bits, and two calls with equally many instances and seeds draw the
    same ones; for the difference of two systems pass the differences.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim < 1 + seeds:
        axes = "(seeds, instances, ...)" if seeds else "(instances, ...)"
        raise ValueError(f"estimate(values of shape {table.shape}): expected {axes}.")
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"estimate(level={level}, resamples={resamples}): expected 0 < level < 1 and resamples >= 1.")
    table = table if seeds else table[None]
    n = table.shape[1]
    missing = int(np.isnan(table).reshape(*table.shape[:2], -1).any(-1).all(0).sum()) if table.size else 0
    value = _over_seeds(table, statistic)
    if value is None:
        return Estimate(None, None, n - missing, missing, level)
    if table.shape[0] == 1 and n - missing < 2:
        return Estimate(value, None, n - missing, missing, level)
    draw = stream(seed, "bootstrap")
    plain = statistic is mean and table.ndim == 2 and not np.isnan(table).any()  # a mean of means: ten times as fast
    drawn: list[float | None] = []
    for _ in range(resamples):
        rows = draw.integers(table.shape[0], size=(table.shape[0],))
        columns = draw.integers(n, size=(n,))
        drawn.append(
            float(table[rows].mean(0)[columns].mean())
            if plain
            else _over_seeds(table[np.ix_(rows, columns)], statistic)
        )
    found = [each for each in drawn if each is not None]
    if 2 * len(found) < resamples:  # undefined more often than not: such an interval would speak of the rest alone
        return Estimate(value, None, n - missing, missing, level)
    low, high = np.quantile(np.asarray(found), [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Estimate(value, (float(low), float(high)), n - missing, missing, level)


def _over_seeds(table: np.ndarray, statistic: Statistic) -> float | None:
    """The mean over seeds of the statistic of each; None where no seed has one."""
    if table.shape[0] == 0 or table.shape[1] == 0:
        return None
    found = mean(np.asarray([float(statistic(instances)) for instances in table]))
    return None if np.isnan(found) else found
