"""The probability of improvement: how often a run of one variant is better than a run of the other."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from regard.judging.statistics.intervals import Estimate, stream


def probability_of_improvement(
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """P(X > Y) for a run X of the first and a run Y of the second on a task drawn at random; a tie counts half.

        P = mean over tasks of #{(i, j) : x_i > y_j} / (n m)  + half the ties      (Mann-Whitney's U / (n m))

    first, second   for each task the values of all seeds (n,), (m,); higher is better

    Runs are resampled within each task and each variant (stratified). Above .5 the first tends to be better, by
    however little. Agarwal et al. 2021 (rliable). Swapping the two gives 1 - P.
    """
    pairs = [
        (np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)) for x, y in zip(first, second, strict=True)
    ]
    if not pairs or any(x.ndim != 1 or y.ndim != 1 or not x.size or not y.size for x, y in pairs):
        raise ValueError(
            "probability_of_improvement(first, second): expected the values of one or more seeds for each task."
        )
    value = float(np.mean([_win_rates(x[None], y[None])[0] for x, y in pairs]))
    runs = sum(x.size for x, _ in pairs)
    if all(x.size == 1 and y.size == 1 for x, y in pairs):
        return Estimate(value, None, runs, level=level)
    draw = stream(seed, "improvement")
    total = np.zeros(resamples)
    for x, y in pairs:
        total += _win_rates(
            x[draw.integers(x.size, size=(resamples, x.size))], y[draw.integers(y.size, size=(resamples, y.size))]
        )
    low, high = np.quantile(total / len(pairs), [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Estimate(value, (float(low), float(high)), runs, level=level)


def _win_rates(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x (R, n), y (R, m) -> (R,): the share of pairs that x wins."""
    x, y = x[:, :, None], y[:, None, :]
    return ((x > y) + 0.5 * (x == y)).mean((1, 2))
