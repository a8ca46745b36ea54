"""ALiBi on a tile of scores: s' = s - slope_h |i + shift - j|; d slope_h = -sum of ds |i + shift - j|."""

from typing import Any, NamedTuple

import triton
import triton.language as tl


class AlibiSlopes(NamedTuple):
    """What ALiBi holds."""

    slopes: Any  # (count,)
    count: Any  # 1, or one a head
    shift: Any  # of positions of queries, in keys


@triton.jit
def away(held, query, key):
    """How far the positions of queries and keys lie apart."""
    return tl.abs(query + held.shift - key).to(tl.float32)


@triton.jit
def alibi(s, held, query, key, batch, head):
    return s - tl.load(held.slopes + head % held.count).to(tl.float32) * away(held, query, key)
