"""Ranges inside kernels: which tiles a block meets, and which pairs of a tile may.

A block of rows looks at columns j with i - left <= j <= i + right and j < m. The same functions serve a block of keys
that asks which queries look at it: left and right then change places.
"""

import triton
import triton.language as tl

# Numbers that follow the lengths of a call, or the place that is read: kernels are not compiled anew for them.
CHANGING = (
    "n",
    "m",
    "left",
    "right",
    "keep_b",
    "keep_h",
    "first_head",
    "heads",
    "rows",
    "columns",
    "top",
    "first",
    "parts",
    "reach",
)


@triton.jit
def tiles_of(i0, n, m, left, right, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, KEPT: tl.constexpr):
    """Where a block of n rows looks among m columns: tiles from start to stop; inner to outer are allowed whole."""
    start = tl.maximum(0, i0 - left) // BLOCK_N * BLOCK_N
    stop = tl.maximum(start, tl.minimum(m, i0 + BLOCK_M + right))
    inner = (tl.maximum(0, i0 + BLOCK_M - 1 - left) + BLOCK_N - 1) // BLOCK_N * BLOCK_N
    outer = tl.minimum(m, i0 + right + 1) // BLOCK_N * BLOCK_N
    if KEPT or i0 + BLOCK_M > n or outer <= inner:
        inner, outer = start, start
    return start, inner, outer, stop


@triton.jit
def span_of(LOW, HIGH, i, count, SPANNED: tl.constexpr):
    """The stretch [low, high) of columns that each row of a block sees besides; nothing where it is not told."""
    low = i
    high = i
    if SPANNED:
        low, high = tl.load(LOW + i, mask=i < count, other=0), tl.load(HIGH + i, mask=i < count, other=0)
    return low, high


@triton.jit
def narrowed(start, inner, outer, stop, low, high, real, m, BLOCK_N: tl.constexpr, SPANNED: tl.constexpr):
    """The tiles of a block whose rows see stretches."""
    if SPANNED:
        start = tl.maximum(start, tl.min(tl.where(real, low, m), 0) // BLOCK_N * BLOCK_N)
        stop = tl.maximum(start, tl.minimum(stop, tl.max(tl.where(real, high, 0), 0)))
        inner = tl.maximum(inner, (tl.max(tl.where(real, low, 0), 0) + BLOCK_N - 1) // BLOCK_N * BLOCK_N)
        outer = tl.minimum(outer, tl.min(tl.where(real, high, m), 0) // BLOCK_N * BLOCK_N)
        if outer <= inner:
            inner, outer = start, start
    return start, inner, outer, stop


@triton.jit
def within(start, inner, outer, stop, first, last, BLOCK_N: tl.constexpr):
    """Those of a block's tiles that lie from first to last, both at the start of a tile: said again, since loads in
    fours are made where it is known."""
    start = tl.multiple_of(tl.minimum(tl.maximum(start, first), last), BLOCK_N)
    inner = tl.multiple_of(tl.minimum(tl.maximum(inner, first), last), BLOCK_N)
    outer = tl.multiple_of(tl.minimum(tl.maximum(outer, first), last), BLOCK_N)
    return start, inner, outer, tl.minimum(tl.maximum(stop, first), last)


@triton.jit
def seen_by(
    i,
    m,
    left,
    right,
    low,
    high,
    KEEP,
    start,
    stop,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
):
    """How many of m columns each row sees, all of them in the tiles from start to stop."""
    first, last = tl.maximum(i - left, 0), tl.minimum(i + right + 1, m)
    if SPANNED:
        first, last = tl.maximum(first, low), tl.minimum(last, high)
    seen = tl.maximum(last - first, 0)
    if KEPT:
        seen = tl.zeros([BLOCK_M], tl.int32)
        for tile in range(start, stop, BLOCK_N):
            j = tile + tl.arange(0, BLOCK_N)
            kept = tl.load(KEEP + j, mask=j < m, other=0) > 0
            may = kept[None, :] & (j[None, :] >= first[:, None]) & (j[None, :] < last[:, None])
            seen += tl.sum(may.to(tl.int32), 1)
    return seen


@triton.jit
def partial_tiles(start, inner, outer, stop, BLOCK_N: tl.constexpr):
    """How many tiles are not allowed whole."""
    return (inner - start) // BLOCK_N + tl.cdiv(stop - outer, BLOCK_N)


@triton.jit
def partial_tile(turn, start, inner, outer, BLOCK_N: tl.constexpr):
    """The first column of the turn-th of them."""
    before = (inner - start) // BLOCK_N
    return tl.where(turn < before, start + turn * BLOCK_N, outer + (turn - before) * BLOCK_N)


@triton.jit
def turns_of(start, inner, outer, stop, COUNTS, BLOCK_N: tl.constexpr, LISTED: tl.constexpr):
    """How many tiles a block meets whole, and in all. LISTED: those of a list (dense/active_tiles), counted there."""
    whole = (outer - inner) // BLOCK_N
    total = whole + partial_tiles(start, inner, outer, stop, BLOCK_N)
    if LISTED:
        whole, total = tl.load(COUNTS), tl.load(COUNTS + 1)
    return whole, total


@triton.jit
def turn_of(turn, whole, start, inner, outer, LIST, BLOCK_N: tl.constexpr, LISTED: tl.constexpr, WHOLE: tl.constexpr):
    """The first column of the turn-th tile of a block."""
    if LISTED:
        return tl.load(LIST + turn).to(tl.int32) * BLOCK_N
    elif WHOLE:
        return inner + turn * BLOCK_N
    else:
        return partial_tile(turn - whole, start, inner, outer, BLOCK_N)


@triton.jit
def allowed(i, j, n, m, left, right):
    """Pairs that may meet, of rows i and columns j that stand beside each other."""
    return (j >= i - left) & (j <= i + right) & (j < m) & (i < n)


@triton.jit
def length_of(LENGTHS, batch, m, PADDED: tl.constexpr):
    """How many keys there are to see in this item."""
    length = m
    if PADDED:
        length = tl.minimum(m, tl.load(LENGTHS + batch).to(tl.int32))
    return length
