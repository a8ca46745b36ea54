"""A row's largest scores, gathered in one walk over the keys.

Each row has a bound that rises. What a tile holds above it is written behind what stands in the row's buffer already;
when a buffer would overflow, it is packed: what can no longer count goes, and the bound rises. A row of thousands of
scores keeps a few dozen, and whatever is sought (the k largest, a threshold) is found among them.
"""

import triton
import triton.language as tl

from .primitives import product


@triton.jit
def put_above(
    VALUES,
    PLACES,
    row,
    s,
    above,
    count,
    first,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BUFFER: tl.constexpr,
    PLACED: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Writes the scores s (BLOCK_M, BLOCK_N) that are `above` into the buffers from `row` on. The new counts.

    Their order within a row is counted by a product with a triangle of ones, which tensor cores do at no cost.
    """
    j = tl.arange(0, BLOCK_N)
    ones = tl.where(j[:, None] <= j[None, :], 1.0, 0.0).to(tl.bfloat16)
    rank = product(tl.where(above, 1.0, 0.0).to(tl.bfloat16), ones, "ieee", INTERPRETED).to(tl.int32)
    where = (tl.arange(0, BLOCK_M) * BUFFER + count - 1)[
        :, None
    ] + rank  # 32 bits: the first buffer is added as one number
    tl.store(VALUES + row * BUFFER + where, s, mask=above)
    if PLACED:
        tl.store(PLACES + row * BUFFER + where, (first + j)[None, :] + tl.zeros_like(rank), mask=above)
    return count + tl.sum(above.to(tl.int32), 1)


@triton.jit
def pack_largest(
    VALUES, PLACES, COUNTS, BOUNDS, row, count, k, BLOCK_M: tl.constexpr, BUFFER: tl.constexpr, FEW: tl.constexpr
):
    """The k largest of each buffer, in order, to its front; the k-th as the bound, once there are k. FEW rows at once.

    A score's place in the order is how many of its buffer come before it; of equal ones, those that were seen before.
    """
    i = tl.arange(0, BLOCK_M)
    tl.store(COUNTS + row + i, count)
    tl.debug_barrier()
    column = tl.arange(0, BUFFER)
    for start in range(0, BLOCK_M, FEW):
        some = (row + start + tl.arange(0, FEW)).to(tl.int64)
        full = tl.load(COUNTS + some)[:, None]
        filled = column[None, :] < full
        at = some[:, None] * BUFFER
        value = tl.load(VALUES + at + column[None, :], mask=filled, other=-float("inf"))
        place = tl.load(PLACES + at + column[None, :], mask=filled, other=0)
        rank = tl.zeros([FEW, BUFFER], tl.int32)
        for first in range(0, BUFFER, 32):
            near = first + tl.arange(0, 32)
            other = tl.load(VALUES + at + near[None, :], mask=near[None, :] < full, other=-float("inf"))[:, None, :]
            seen = near[None, None, :] < column[None, :, None]
            ahead = (other > value[:, :, None]) | ((other == value[:, :, None]) & seen)
            rank += tl.sum(ahead.to(tl.int32), 2)
        tl.debug_barrier()  # all of the buffer has been read
        tl.store(VALUES + at + rank, value, mask=filled & (rank < k))
        tl.store(PLACES + at + rank, place, mask=filled & (rank < k))
        tl.store(BOUNDS + some, tl.max(tl.where(filled & (rank == k - 1), value, -float("inf")), 1))
        tl.debug_barrier()
    return tl.load(BOUNDS + row + i), tl.minimum(count, k)
