"""Ranges inside kernels: which tiles a block meets, and which pairs of a tile may.

A block of rows looks at columns j with i - left <= j <= i + right and j < m. The same functions serve a block of keys
that asks which queries look at it: left and right then change places.
"""

import triton
import triton.language as tl


@triton.jit
def tiles_of(i0, n, m, left, right, BM: tl.constexpr, BN: tl.constexpr, KEPT: tl.constexpr):
    """Where a block of n rows looks among m columns: tiles from start to stop; inner to outer are allowed whole."""
    start = tl.maximum(0, i0 - left) // BN * BN
    stop = tl.maximum(start, tl.minimum(m, i0 + BM + right))
    inner = (tl.maximum(0, i0 + BM - 1 - left) + BN - 1) // BN * BN
    outer = tl.minimum(m, i0 + right + 1) // BN * BN
    if KEPT or i0 + BM > n or outer <= inner:
        inner, outer = start, start
    return start, inner, outer, stop


@triton.jit
def partial_tiles(start, inner, outer, stop, BN: tl.constexpr):
    """How many tiles are not allowed whole."""
    return (inner - start) // BN + tl.cdiv(stop - outer, BN)


@triton.jit
def partial_tile(turn, start, inner, outer, BN: tl.constexpr):
    """The first column of the turn-th of them."""
    before = (inner - start) // BN
    return tl.where(turn < before, start + turn * BN, outer + (turn - before) * BN)


@triton.jit
def allowed(i, j, n, m, left, right):
    """Pairs (rows, columns) that may meet."""
    may = (j[None, :] >= i[:, None] - left) & (j[None, :] <= i[:, None] + right)
    return may & (j[None, :] < m) & (i[:, None] < n)


@triton.jit
def length_of(LENGTHS, batch, m, PADDED: tl.constexpr):
    """How many keys there are to see in this item."""
    length = m
    if PADDED:
        length = tl.minimum(m, tl.load(LENGTHS + batch).to(tl.int32))
    return length
