"""A measure beside its baselines: the paired difference to each, with its interval and p."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .bootstrap import crossed_error, percentile_interval, percentile_p, resampled
from .exchange import exchange_p
from .intervals import Estimate, estimate
from .means import betting_p, mean_interval, mean_p
from .scale import FEWEST, Scale, fewest
from .shares import binomial_p, clopper_pearson
from .sign_flip import sign_flip
from .statistic import Statistic, mean, over_seeds

RESAMPLED = 3  # draws of a baseline that go through a bootstrap: fewer make an interval wider, never narrower
Baseline = float | None | ArrayLike


@dataclass(frozen=True)
class PairedDifference:
    """A measure minus its baseline, on the same instances.

    value      None where one of the two is undefined
    interval   of the difference; None where there is no spread
    p          two-sided, of this comparison alone; None says that there is no verdict, and `why` tells the reason
    n          instances on which both are defined
    """

    value: float | None
    interval: tuple[float, float] | None = None
    p: float | None = None
    n: int = 0
    why: str = ""


@dataclass(frozen=True)
class Compared(Estimate):
    """An estimate with its baselines by name, and the paired difference to each; what `Finding.of` takes."""

    baselines: Mapping[str, float | None] = field(default_factory=dict)
    differences: Mapping[str, PairedDifference] = field(default_factory=dict)


def compare(
    values: ArrayLike,
    baselines: Mapping[str, Baseline],
    statistic: Statistic = mean,
    *,
    seeds: bool = False,
    scale: Scale = "real",
    strata: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Compared:
    """`estimate`, and its difference to each baseline.

    values     (instances, ...), or with seeds=True (seeds, instances, ...)
    baselines  by name: an array of the same shape, its numbers on the same instances; one with an axis more in front,
               (draws, *shape), of a baseline that is drawn at random; a number that is known beforehand; None where it
               is undefined. A number that is only shown belongs to `Finding.of(baselines=)`

    p is the largest of two or three: of the spread of the differences (t and bootstrap-t; the bootstrap for figures of
    a corpus), and of exchange: on each instance the measure and its draws change places. The latter is exact, at any
    number of instances, where a measure is no more than a draw of its baseline. Fewer instances than its scale needs
    (`scale.fewest`) give no p, whatever was measured.
    """
    table = np.asarray(values, dtype=np.float64)
    found = estimate(
        table,
        statistic,
        seeds=seeds,
        scale=scale,
        strata=strata,
        level=level,
        resamples=resamples,
        seed=seed,
    )
    beside, differences = dict[str, float | None](), dict[str, PairedDifference]()
    for name, given in baselines.items():
        if given is None:
            beside[name], differences[name] = None, PairedDifference(None, why=f"{name} is undefined")
            continue
        other = np.asarray(given, dtype=np.float64)
        if (other.ndim and other.shape[-table.ndim :] != table.shape) or other.ndim > table.ndim + 1:
            raise ValueError(
                f"compare(values of shape {table.shape}): the baseline {name!r} has shape {other.shape}; expected the "
                "same, (draws, ...) of it, or a number."
            )
        options: dict[str, Any] = {
            "seeds": seeds and len(table) > 1,
            "scale": scale,
            "strata": strata,
            "level": level,
            "resamples": resamples,
            "seed": seed,
        }
        one, rest = (table[0], 1) if seeds and len(table) == 1 else (table, 0)
        if rest and other.ndim:
            other = np.take(other, 0, axis=-table.ndim)
        beside[name] = _figure_of(other, one.ndim, statistic, options["seeds"])
        differences[name] = difference(one, other, statistic, **options)
    return Compared(
        found.value, found.interval, found.n, found.undefined, found.level, found.method, beside, differences
    )


def difference(
    table: np.ndarray,
    other: np.ndarray,
    statistic: Statistic = mean,
    *,
    seeds: bool = False,
    scale: Scale = "real",
    strata: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> PairedDifference:
    """The paired difference of `compare` to one baseline: a number (), one for each instance, or (draws, ...)."""
    draws = other if other.ndim == table.ndim + 1 else other[None]
    if seeds:
        return _over_seeds(table, draws if other.ndim else None, other, statistic, scale, level, resamples, seed)
    plain = table.ndim == 1 and statistic is mean
    if other.ndim == 0:
        if plain:
            return _beside_number(table[~np.isnan(table)], float(other), scale, level, resamples, seed)
        figure = lambda places: float(statistic(table[places])) - float(other)  # noqa: E731
        defined = table
    else:
        if table.ndim == 1:
            defined = ~(np.isnan(table) | np.isnan(draws).any(0))
            table, draws = table[defined], draws[:, defined]
            strata = None if strata is None else np.asarray(strata)[defined]
        few = draws[:RESAMPLED]
        figure = lambda places: _apart(table[places], few[:, places], statistic)  # noqa: E731
    n = len(table)
    if n == 0:
        return PairedDifference(None, why="no instance on which both are defined")
    value = figure(np.arange(n)) if other.ndim == 0 else _apart(table, draws, statistic)
    if math.isnan(value):
        return PairedDifference(None, n=n, why="one of the two is undefined")
    if not (np.isfinite(table[~np.isnan(table)]).all() and np.isfinite(draws[~np.isnan(draws)]).all()):
        return PairedDifference(value, n=n, why="some value is infinite")
    if plain:
        each = table - draws.mean(0)
        ends, p = mean_interval(each, level, resamples, seed), mean_p(each, 0.0, resamples, seed)
    else:
        drawn = resampled(n, figure, strata=strata, resamples=(resamples + 1) // 2, seed=seed)
        drawn = drawn - figure(np.arange(n)) + value  # of all draws, though only a few of them are resampled
        ends, p = percentile_interval(drawn, n, level), percentile_p(drawn, n)
    if n < fewest(scale) or n < 2:
        return PairedDifference(value, ends, None, n, _few(n, scale))
    if other.ndim:
        p = max(p, exchange_p(table, draws, statistic, seed))
    return PairedDifference(value, ends, p, n)


def _beside_number(
    table: np.ndarray, null: float, scale: Scale, level: float, resamples: int, seed: int
) -> PairedDifference:
    """A mean or a share beside a number that is known beforehand."""
    n = len(table)
    if n == 0:
        return PairedDifference(None, why="no instance on which it is defined")
    value = float(table.mean()) - null
    if not math.isfinite(value):
        return (
            PairedDifference(value, n=n, why="some value is infinite")
            if not math.isnan(value)
            else PairedDifference(None)
        )
    if scale == "share":
        hits = int(table.sum())
        low, high = clopper_pearson(hits, n, level)
        return PairedDifference(value, (low - null, high - null), binomial_p(hits, n, null), n)
    if n < fewest(scale):
        return PairedDifference(value, None, None, n, _few(n, scale))
    found = estimate(table, scale=scale, level=level, resamples=resamples, seed=seed).interval
    ends = None if found is None else (found[0] - null, found[1] - null)
    if isinstance(scale, tuple) and n < FEWEST["skewed"]:
        return PairedDifference(value, ends, betting_p(table, *scale, null=null, level=level), n)
    if ends is None:
        return PairedDifference(value, None, None, n, "every instance has the same value")
    return PairedDifference(value, ends, mean_p(table, null, resamples, seed), n)


def _over_seeds(
    table: np.ndarray,
    draws: np.ndarray | None,
    other: np.ndarray,
    statistic: Statistic,
    scale: Scale,
    level: float,
    resamples: int,
    seed: int,
) -> PairedDifference:
    """t over seeds and instances, and the sign-flip test of the seeds: five seeds show nothing by it."""
    from scipy.stats import t

    mine = over_seeds(table, statistic)
    theirs = (
        np.full(len(mine), float(other)) if draws is None else np.mean([over_seeds(x, statistic) for x in draws], 0)
    )
    apart = (mine - theirs)[~np.isnan(mine - theirs)]
    n = table.shape[1]
    if not len(apart):
        return PairedDifference(None, why="one of the two is undefined")
    value = float(apart.mean())
    if len(apart) < 2 or not np.isfinite(apart).all():
        return PairedDifference(value, n=n, why="one seed has a value" if len(apart) < 2 else "some value is infinite")
    plain = table.ndim == 2 and statistic is mean
    if plain:
        joint, figure = table - (float(other) if draws is None else draws.mean(0)), statistic
    else:
        joint = table[..., None] if draws is None else np.stack([table, *draws], -1)

        def figure(one: np.ndarray) -> float:
            rest = (
                float(other)
                if draws is None
                else float(np.mean([statistic(one[..., k]) for k in range(1, one.shape[-1])]))
            )
            return float(statistic(one[..., 0])) - rest

    error, freedom = crossed_error(mine - theirs, joint, figure, plain, resamples, seed)
    if error == 0:
        return PairedDifference(value, None, float(sign_flip(apart, seed)), n)
    half = float(t.isf((1 - level) / 2, freedom)) * error
    p = max(2 * float(t.sf(abs(value) / error, freedom)), float(sign_flip(apart, seed)))
    return PairedDifference(value, (value - half, value + half), p, n)


def _apart(table: np.ndarray, draws: np.ndarray, statistic: Statistic) -> float:
    return float(statistic(table)) - float(np.mean([float(statistic(one)) for one in draws]))


def _figure_of(other: np.ndarray, axes: int, statistic: Statistic, seeds: bool) -> float | None:
    """A baseline's own figure, the mean of its draws and seeds; a number is itself."""
    if other.ndim == 0:
        return None if np.isnan(other) else float(other)
    draws = other if other.ndim == axes + 1 else other[None]
    found = np.array([mean(over_seeds(one if seeds else one[None], statistic)) for one in draws])
    value = mean(found)
    return None if np.isnan(value) else value


def _few(n: int, scale: Scale) -> str:
    return f"{n} instance{'s' * (n != 1)}: a verdict needs {max(2, fewest(scale))}"
