"""The exchange test: is a measure any different from the draws of its baseline?"""

import numpy as np

from .sign_flip import EXACT, sign_flip
from .statistic import Statistic, mean
from .streams import stream

ORDERS, FEWER = 4_999, 999  # of means; of statistics that are computed one resample at a time


def exchange_p(table: np.ndarray, draws: np.ndarray, statistic: Statistic = mean, seed: int = 0) -> float:
    """Two-sided p of the hypothesis that on each instance the measure might as well be one of the draws.

        p = 2 min(#{T* >= T}, #{T* <= T}) / (times + 1),    T = statistic of the measure, counted among the T*
        T*: on each instance one of the 1 + draws rows, drawn at random

    table (n, ...), draws (draws, n, ...) with no NaN in means  ->  p

    Exact under that hypothesis, whatever the distribution, the ties and the number of instances. With one draw and a
    mean it is the sign-flip test of the differences (`sign_flip`); for figures of a corpus it is approximate
    randomisation (Noreen 1989).
    """
    n = len(table)
    both = np.concatenate([table[None], draws])
    if statistic is mean and table.ndim == 1 and len(draws) == 1 and n <= EXACT:
        return float(sign_flip(table - draws[0]))
    draw = stream(seed, "exchange")
    if statistic is mean and table.ndim == 1:
        both = both - both.mean(0)
        seen, found = float(both[0].sum()), np.empty(ORDERS)
        size = max(1, 2_000_000 // n)
        for at in range(0, ORDERS, size):
            rows = draw.integers(len(both), size=(min(size, ORDERS - at), n))
            found[at : at + size] = both[rows, np.arange(n)].sum(1)
    else:
        seen = float(statistic(table))
        found = np.array([float(statistic(both[draw.integers(len(both), size=n), np.arange(n)])) for _ in range(FEWER)])
        found = np.where(np.isnan(found), seen, found)  # what is undefined counts against a verdict
    near = 1e-9 * max(abs(seen), float(np.abs(found).max(initial=0.0)))
    above, below = int((found >= seen - near).sum()), int((found <= seen + near).sum())
    return min(1.0, 2 * (1 + min(above, below)) / (len(found) + 1))
