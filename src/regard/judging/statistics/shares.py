"""The share of instances of which something is true."""

import numpy as np

Ends = tuple[float, float]


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> Ends:
    """The exact interval of a share: every p under which neither so few nor so many are rarer than (1 - level) / 2.

        low  = B(alpha / 2;      k,     n - k + 1),    0 where k = 0
        high = B(1 - alpha / 2;  k + 1, n - k),        1 where k = n

    B: quantiles of the beta distribution. It holds at every p and n. Clopper & Pearson 1934.
    """
    from scipy.stats import beta

    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"clopper_pearson({successes} of {n}): expected a count from 0 to n, and n of 1 or more.")
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.isf(tail, successes + 1, n - successes))
    return low, high


def binomial_p(successes: int, n: int, share: float) -> float:
    """How often a share has as many or as few: twice the smaller tail, so that p and the interval say the same."""
    from scipy.stats import binom

    return float(min(1.0, 2 * min(binom.cdf(successes, n, share), binom.sf(successes - 1, n, share))))


def median_interval(values: np.ndarray, level: float = 0.95) -> Ends | None:
    """The interval of a median between two values in order: it holds for every distribution. None below 6 values.

    [x_(k), x_(n + 1 - k)],    k the largest with P(Binomial(n, 1/2) < k) <= (1 - level) / 2
    """
    from scipy.stats import binom

    n = len(values)
    k = int(binom.ppf((1 - level) / 2, n, 0.5))
    k += bool(binom.cdf(k, n, 0.5) <= (1 - level) / 2)
    if k < 1:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])
