"""Intervals and tests of a mean: Student's t, bootstrap-t, and a betting interval for what is bounded."""

import math

import numpy as np

from .streams import stream

Ends = tuple[float, float]
SMALL = 500  # instances from which t and bootstrap-t are the same to a few percent


def mean_interval(values: np.ndarray, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Ends | None:
    """The wider of Student's t and bootstrap-t on either side; t alone from 500 values. None without a spread.

        t             mean +- q s / sqrt(n)
        bootstrap-t   mean - q* s / sqrt(n),   q* quantiles of (mean* - mean) sqrt(n) / s* over resamples

    t is too short where the distribution is skewed, bootstrap-t where its tails are heavy (t with three degrees of
    freedom); one of the two holds for either. Efron & Tibshirani 1993, chapter 12.
    """
    from scipy.stats import t

    n = len(values)
    error = _error(values)
    if error is None:
        return None
    centre, tail = float(values.mean()), (1 - level) / 2
    q = float(t.isf(tail, n - 1))
    low, high = -q, q
    if n < SMALL:
        drawn = np.quantile(_studentised(values, resamples, seed), [tail, 1 - tail], method="inverted_cdf")
        low, high = min(low, float(drawn[0])), max(high, float(drawn[1]))
    if not (math.isfinite(low) and math.isfinite(high)):  # too many resamples are one value again and again
        return None
    return centre - high * error, centre - low * error


def mean_p(values: np.ndarray, null: float = 0.0, resamples: int = 2000, seed: int = 0) -> float:
    """Two-sided: the larger p of t and bootstrap-t, so that p is below 1 - level where the interval leaves out null.

    Values that are all the same have no p of this kind: 0 then, and 1 where they are `null`.
    """
    from scipy.stats import t

    n, far = len(values), float(values.mean()) - null
    error = _error(values)
    if error is None:
        return float(abs(far) <= 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0))))
    seen = far / error
    p = 2 * float(t.sf(abs(seen), n - 1))
    if n >= SMALL:
        return p
    drawn = _studentised(values, resamples, seed)
    beyond = int((drawn >= seen).sum() if seen > 0 else (drawn <= seen).sum())
    return max(p, min(1.0, 2 * (1 + beyond) / (resamples + 1)))


def betting_interval(values: np.ndarray, low: float, high: float, level: float = 0.95) -> Ends:
    """The means that no bet against them has made rich: it holds for any distribution between the bounds, at any n.

        K(m) = max(prod(1 + l_i (x_i - m)), prod(1 - l_i (x_i - m))) / 2 < 1 / (1 - level)

    l_i: what is staked on value i, by the variance of those before it. Waudby-Smith & Ramdas 2024 (hedged capital).
    """
    grid = np.linspace(0.0, 1.0, 1001)
    open_ = grid[betting_wealth(values, low, high, grid, level) < math.log(1 / (1 - level))]
    at = float(np.clip((values.mean() - low) / (high - low), 0, 1))
    step = grid[1]
    first, last = (float(open_.min()), float(open_.max())) if len(open_) else (at, at)
    first, last = max(0.0, min(first - step, at)), min(1.0, max(last + step, at))
    return low + first * (high - low), low + last * (high - low)


def betting_p(values: np.ndarray, low: float, high: float, null: float, level: float = 0.95) -> float:
    """One over what a bet against `null` has won (Ville 1939); 1 where it lost."""
    share = np.array([(null - low) / (high - low)])
    if not 0 <= share[0] <= 1:
        return 0.0
    return float(min(1.0, math.exp(-float(betting_wealth(values, low, high, share, level)[0]))))


def betting_wealth(values: np.ndarray, low: float, high: float, grid: np.ndarray, level: float) -> np.ndarray:
    """(m,): the logarithm of what was won against each mean of the grid, in shares of the way from low to high."""
    x = (values - low) / (high - low)
    if (x < -1e-9).any() or (x > 1 + 1e-9).any():
        raise ValueError(
            f"values between {values.min():.4g} and {values.max():.4g}: expected all of them within the bounds of the "
            f"measure, {low:g} to {high:g}."
        )
    x, n = x.clip(0.0, 1.0), len(x)
    count = np.arange(1, n + 1)
    centre = (0.5 + np.cumsum(x)) / (count + 1)
    variance = (0.25 + np.cumsum((x - centre) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]])  # a stake may know only what came before
    stake = np.sqrt(2 * math.log(2 / (1 - level)) / (n * before))
    m = grid[:, None]
    with np.errstate(divide="ignore"):
        up, down = np.minimum(stake, 0.5 / m), np.minimum(stake, 0.5 / (1 - m))
    gain = np.log1p(up * (x - m)).sum(1), np.log1p(-down * (x - m)).sum(1)
    return np.maximum(*gain) + math.log(0.5)


def _error(values: np.ndarray) -> float | None:
    """The standard error of the mean; None of one value, and of values that differ by rounding alone."""
    if len(values) < 2:
        return None
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return error if error > 1e-12 * max(1e-300, float(np.abs(values).max())) else None


def _studentised(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(resamples,): (mean* - mean) / error* of resamples; without a spread, infinite towards the side of its mean."""
    n = len(values)
    some = values[stream(seed, "bootstrap").integers(n, size=(resamples, n))]
    far, error = some.mean(1) - values.mean(), some.std(1, ddof=1) / math.sqrt(n)
    flat = error <= 1e-12 * np.abs(values).max()
    drawn = far / np.where(flat, 1.0, error)
    return np.where(flat, np.where(far == 0, 0.0, np.copysign(np.inf, far)), drawn)
