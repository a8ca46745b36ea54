"""Holm's correction for several comparisons."""

import numpy as np
from numpy.typing import ArrayLike


def holm(p: ArrayLike) -> np.ndarray:
    """Adjusted p: reject those at most alpha, and the chance of one or more false rejections is at most alpha.

        p_(1) <= ... <= p_(m),    adjusted_(i) = max_{j <= i} min(1, (m - j + 1) p_(j))

    p (..., m) -> (..., m), in the order given. Valid however the comparisons depend on each other. Holm 1979.
    No adjusted p is above Bonferroni's.
    """
    given = np.asarray(p, dtype=np.float64)
    if given.ndim < 1 or not ((given >= 0) & (given <= 1)).all():
        raise ValueError(f"holm(p={given.tolist()}): expected probabilities (..., m), each from 0 to 1.")
    m = given.shape[-1]
    order = np.argsort(given, axis=-1, kind="stable")
    factors = np.arange(m, 0, -1)
    raised = np.maximum.accumulate(np.minimum(1.0, factors * np.take_along_axis(given, order, -1)), axis=-1)
    adjusted = np.empty_like(given)
    np.put_along_axis(adjusted, order, raised, -1)
    return adjusted
