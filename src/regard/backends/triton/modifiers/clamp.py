"""Clamp of a tile of scores: s' = min(max(s, -bound), bound), with no gradient outside."""

from typing import Any, NamedTuple

import triton
import triton.language as tl


class ClampNumbers(NamedTuple):
    """What a clamp holds."""

    bound: Any


@triton.jit
def clamp(s, held, query, key, batch, head):
    s = tl.maximum(s, -held.bound, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(s, held.bound, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def clamp_slope(s, out, held):
    return tl.where(tl.abs(s) <= held.bound, 1.0, 0.0)
