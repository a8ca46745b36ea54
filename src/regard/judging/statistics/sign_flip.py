"""The sign-flip permutation test of paired differences over seeds."""

import numpy as np
from numpy.typing import ArrayLike

from .streams import stream

EXACT = 14  # seeds up to which all sign patterns are enumerated: 2^13, since a pattern and its mirror are equivalent
DRAWS = 9_999  # random patterns beyond that


def sign_flip(differences: ArrayLike, seed: int = 0) -> np.ndarray:
    """The share of sign patterns whose mean is at least as far from zero as the observed one.

        p = #{e in {-1, 1}^s : |sum_i e_i d_i| >= |sum_i d_i|} / 2^s

    differences (..., seeds)  ->  two-sided p (...), each row a test of its own

    Under the null hypothesis the two variants of a pair are exchangeable. Up to 14 seeds all patterns are
    enumerated; beyond, 9,999 are drawn and p = (count + 1) / (drawn + 1), which is never 0 (Phipson and Smyth 2010).
    Fisher 1935, section 21. With s seeds p is never below 2 / 2^s.
    """
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim < 1 or d.shape[-1] < 1:
        raise ValueError(f"sign_flip(differences of shape {d.shape}): expected (..., seeds) with at least one seed.")
    if not np.isfinite(d).all():
        raise ValueError("sign_flip(differences): some are not finite; drop these pairs first.")
    s = d.shape[-1]
    observed = np.abs(d.sum(-1)) - 1e-12 * np.abs(d).sum(-1)  # tolerate rounding: ties count
    if s <= EXACT:
        return np.mean(np.abs(d @ _patterns(s)) >= observed[..., None], axis=-1)
    signs = 1.0 - 2.0 * stream(seed, "signs").integers(2, size=(s, DRAWS))
    return (np.sum(np.abs(d @ signs) >= observed[..., None], axis=-1) + 1) / (DRAWS + 1)


def smallest_p(seeds: int, comparisons: int = 1) -> float:
    """The smallest p that sign_flip can reach after Holm's correction, whose first step multiplies by all comparisons.

    smallest_p(3) = .25: with three seeds nothing is significant at .05.
    """
    if seeds < 1 or comparisons < 1:
        raise ValueError(f"smallest_p(seeds={seeds}, comparisons={comparisons}): expected 1 or more of both.")
    alone = 2.0 ** (1 - seeds) if seeds <= EXACT else 1.0 / (DRAWS + 1)
    return min(1.0, comparisons * alone)


def seeds_for(comparisons: int, alpha: float = 0.05) -> int | None:
    """The fewest seeds whose smallest p after correction is at most alpha: 6 for one comparison at .05.

    None if no number is enough, since 9,999 patterns are drawn: compare fewer variants.
    """
    return next((seeds for seeds in range(1, EXACT + 2) if smallest_p(seeds, comparisons) <= alpha), None)


def _patterns(s: int) -> np.ndarray:
    """(s, 2^(s-1)): every pattern of signs whose last sign is +; the mirror of each has the same |sum|."""
    bits = (np.arange(2 ** (s - 1))[None] >> np.arange(s)[:, None]) & 1
    return 1.0 - 2.0 * bits
