"""A number for each distance on a tile of scores: s' = s + table_h[clip(j - i - shift, -reach, reach) + reach].

T5's buckets are such a table too: each distance has the number of its bucket.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl


class DistanceTable(NamedTuple):
    """What a bias of distances holds."""

    table: Any  # (count, 2 reach + 1)
    count: Any  # 1, or one a head
    reach: Any
    shift: Any  # of positions of queries, in keys


@triton.jit
def distance_bias(s, held, query, key, batch, head):
    slot = tl.minimum(tl.maximum(key - query - held.shift, -held.reach), held.reach) + held.reach
    return s + tl.load(held.table + head % held.count * (2 * held.reach + 1) + slot).to(tl.float32)


@triton.jit
def add_to_table(OUT, ds, distance, reach, below, above, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Adds a tile's gradient to a program's own table OUT (2 reach + 1,), but for its two ends, `below` and `above`.

    distance: of the first row and column. Rows are rotated by their number, so that a column holds one distance, and
    that less BLOCK_N where a row came round: a sum over rows for either. A block is as wide as it is high.
    """
    if distance + BLOCK_N - 1 <= -reach:
        below += tl.sum(tl.sum(ds, 1), 0)
    elif distance - (BLOCK_M - 1) >= reach:
        above += tl.sum(tl.sum(ds, 1), 0)
    else:
        column = tl.arange(0, BLOCK_N)
        turned = column[None, :] + tl.arange(0, BLOCK_M)[:, None]
        rotated = tl.gather(ds, turned % BLOCK_N, 1)
        for turn in tl.static_range(2):
            sums = tl.sum(tl.where(turned // BLOCK_N == turn, rotated, 0.0), 0)
            away = distance + column - turn * BLOCK_N
            within = tl.abs(away) < reach
            at = OUT + tl.where(within, away + reach, 0)
            tl.debug_barrier()  # what another thread added is there
            tl.store(at, tl.load(at, mask=within, other=0.0) + sums, mask=within)
            below += tl.sum(tl.where(away <= -reach, sums, 0.0), 0)
            above += tl.sum(tl.where((away >= reach) & (away > -reach), sums, 0.0), 0)
    return below, above
