"""Lists of the tiles that hold weights of a sparse alignment, so that a walk over them meets no other.

A walk with a branch for each tile cannot read ahead: the list has none. The threshold's walk marks tiles (LIVE); a
block of queries lists tiles of keys, a block of keys those of queries, first the ones that it meets whole.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..common.range_masks import CHANGING, length_of, tiles_of
from ..runtime.fast_launcher import launched
from ..runtime.launch_replay import alloc
from .tile_sizes import side_of


@triton.jit
def list_tiles(LIVE, stride, LIST, COUNTS, inner, outer, tiles, SIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The live ones of a block's tiles in LIST, first those from inner to outer. How many those are, and in all."""
    whole, count = 0, 0
    for turn in tl.static_range(2):
        for some in range(0, tiles, BLOCK):
            at = some + tl.arange(0, BLOCK)
            live = tl.load(LIVE + at.to(tl.int64) * stride, mask=at < tiles, other=0).to(tl.int32)
            inside = ((at * SIDE >= inner) & (at * SIDE < outer)).to(tl.int32)
            mine = live * (inside if turn == 0 else 1 - inside)
            tl.store(LIST + count + tl.cumsum(mine, 0) - 1, at.to(tl.int16), mask=mine > 0)
            count += tl.sum(mine, 0)
        if turn == 0:
            whole = count
    tl.store(COUNTS, whole)
    tl.store(COUNTS + 1, count)
    return whole, count


@launched
@triton.jit(do_not_specialize=CHANGING)
def list_kernel(
    LIVE,
    LIST,
    COUNTS,
    LENGTHS,
    n,
    m,
    left,
    right,
    heads,
    SIDE: tl.constexpr,
    PADDED: tl.constexpr,
    SPLIT: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """LIVE (g, blocks of queries, blocks of keys); LIST (g, own blocks, other blocks) int16; COUNTS (g, own blocks, 2):
    how many are whole (none, unless SPLIT), and in all. KEYS: the own side is that of the keys."""
    at, g = tl.program_id(0), tl.program_id(1).to(tl.int64)
    length = length_of(LENGTHS, g // heads, m, PADDED)
    queries, keys = tl.cdiv(n, SIDE), tl.cdiv(m, SIDE)
    LIVE += g * queries * keys
    if KEYS:
        others, stride = queries, keys
        LIVE += at
        _, inner, outer, _ = tiles_of(at * SIDE, length, n, right, left, SIDE, SIDE, not SPLIT)
    else:
        others, stride = keys, 1
        LIVE += at.to(tl.int64) * keys
        _, inner, outer, _ = tiles_of(at * SIDE, n, length, left, right, SIDE, SIDE, not SPLIT)
    own = g * tl.num_programs(0) + at
    LIST, COUNTS = LIST + own * others, COUNTS + own * 2
    list_tiles(LIVE, stride, LIST, COUNTS, inner, outer, others, SIDE, BLOCK)


def active_tile_lists(call: Any, live: Tensor, bounds: tuple[int, int], keys: bool) -> tuple[Tensor, Tensor]:
    """The lists of all blocks of queries, or of keys, and their counts; anything where nothing is sparse."""
    if not live.numel():
        return live, live
    (g, n, _), m, lengths = call.a.shape, call.b.shape[1], call.ranges.lengths
    side = side_of(call.a, call.v, call.core)
    blocks = -(-(m if keys else n) // side)
    table = alloc(live.numel(), live.device, torch.int16)
    counts = alloc((g, blocks, 2), live.device, torch.int32)
    list_kernel[(blocks, g)](
        live,
        table,
        counts,
        live if lengths is None else lengths,
        n,
        m,
        *bounds,
        call.heads,
        SIDE=side,
        PADDED=lengths is not None,
        SPLIT=call.ranges.keep is None and call.low is None,
        KEYS=keys,
        BLOCK=128,
    )
    return table, counts
