"""Several modifiers of a score, one after the other, inside kernels.

A kernel takes them as two constants, MODIFY and SLOPES, tuples of functions of the same length, and what each holds
(tensors and numbers) as MODIFIERS, a tuple of named tuples:

    value(s, held, query, key, batch, head)   scores of a tile, (1 or rows, 1 or columns) places beside each other
    slope(s, out, held)                       d out / d s; None of what is added to a score

Pairs beyond the lengths of a call may be asked for: a value that reads memory by places masks them.
"""

from typing import Any

import triton
import triton.language as tl


class TileFunctions(tuple[Any, ...]):
    """Functions that a kernel is given as one constant: compiled anew when one of them changes."""

    @property
    def cache_key(self) -> str:
        return " ".join("None" if x is None else x.cache_key for x in self)


@triton.jit
def modified(s, query, key, batch, head, MODIFIERS, MODIFY: tl.constexpr):
    """Scores after every modifier."""
    for place in tl.static_range(len(MODIFY)):
        s = MODIFY[place](s, MODIFIERS[place], query, key, batch, head)
    return s


@triton.jit
def modified_with_slope(
    s, query, key, batch, head, MODIFIERS, MODIFY: tl.constexpr, SLOPES: tl.constexpr, FROM: tl.constexpr
):
    """Scores after every modifier, and their slope by what the FROM-th is given."""
    slope = 1.0
    for place in tl.static_range(len(MODIFY)):
        out = MODIFY[place](s, MODIFIERS[place], query, key, batch, head)
        if place >= FROM and SLOPES[place] is not None:
            slope = slope * SLOPES[place](s, out, MODIFIERS[place])
        s = out
    return s, slope
