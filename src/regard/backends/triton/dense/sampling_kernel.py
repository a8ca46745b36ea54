"""One key for each row, drawn from the softmax of its scores or the best of them: no weight is ever stored.

A draw is the largest of score + noise (Gumbel), with the noise of core/lowering/philox.py, so that every backend draws
the same key. Beside it a row keeps log sum exp s and the entropy of the distribution that it drew from.
"""

import triton
import triton.language as tl

from ..common.philox import uniform
from ..common.range_masks import CHANGING, length_of, narrowed, partial_tile, partial_tiles, span_of, tiles_of
from ..runtime.fast_launcher import launched
from .tile import block_of, row_side, tile


@triton.jit
def _more(
    top,
    sums,
    terms,
    best,
    index,
    s,
    seed,
    i,
    first,
    head,
    batch,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SAMPLED: tl.constexpr,
):
    """One more tile: sum of 2^s and of s 2^s relative to the largest so far, and the best key so far."""
    higher = tl.maximum(top, tl.max(s, 1))
    safe = tl.where(higher == -float("inf"), 0.0, higher)
    rescale = tl.exp2(top - safe)
    p = tl.exp2(s - safe[:, None])
    apart = tl.where(top == -float("inf"), 0.0, top - safe)
    terms = (terms + apart * sums) * rescale + tl.sum(tl.where(p > 0, p * (s - safe[:, None]), 0.0), 1)
    sums = sums * rescale + tl.sum(p, 1)
    if SAMPLED:
        s -= tl.log2(-tl.log(uniform(seed, i, first, head, batch, BLOCK_M, BLOCK_N, False)))  # Gumbel's, in base 2
    s = tl.where(s != s, float("inf"), s)  # what is no number is the largest, as torch.argmax has it
    value, place = tl.max(s, 1, return_indices=True, return_indices_tie_break_left=True)
    index = tl.where(value > best, first + place, index)
    return higher, sums, terms, tl.maximum(best, value), index


@launched
@triton.jit(do_not_specialize=CHANGING)
def choose_kernel(
    A,
    B,
    AT,
    BT,
    R,
    MODES,
    OWN,
    BIAS,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    SEED,
    INDEX,
    TAU,
    ENTROPY,
    n,
    m,
    left,
    right,
    scale,
    heads,
    group,
    keep_b,
    keep_h,
    stride_x,
    stride_y,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    SAMPLED: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """INDEX, -1 for a row that sees nobody; TAU in base 2, +inf there; ENTROPY in base 2, 0 there."""
    g, batch, head, i0, i = block_of(n, heads, BLOCK_M)
    length = length_of(LENGTHS, batch, m, PADDED)
    shared = g // group  # the head of keys
    x, mode, own = row_side(A, MODES + shared, OWN, g, i, n, CORE, D, DP, OWNED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + shared * WIDTH * stride_y, R + g * (WIDTH + 1)
    B, BIAS, KEEP = B + shared * m * D, BIAS + g * m, KEEP + batch * keep_b + head * keep_h
    seed = tl.load(SEED) if SAMPLED else 0
    top, best = tl.full([BLOCK_M], -float("inf"), tl.float32), tl.full([BLOCK_M], -float("inf"), tl.float32)
    sums, terms = tl.zeros([BLOCK_M], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    index = tl.full([BLOCK_M], -1, tl.int32)
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BLOCK_M, BLOCK_N, KEPT)
    low, high = span_of(LOW + g * n, HIGH + g * n, i, n, SPANNED)
    start, inner, outer, stop = narrowed(start, inner, outer, stop, low, high, i < n, length, BLOCK_N, SPANNED)
    for first in range(inner, outer, BLOCK_N):
        s = tile(
            x,
            AT,
            BT,
            B,
            R,
            mode,
            own,
            BIAS,
            KEEP,
            low,
            high,
            i0,
            first,
            n,
            length,
            m,
            left,
            right,
            scale,
            stride_x,
            stride_y,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            KEPT,
            SPANNED,
            True,
            PRECISION,
            INTERPRETED,
        )
        top, sums, terms, best, index = _more(
            top, sums, terms, best, index, s, seed, i, first, head, batch, BLOCK_M, BLOCK_N, SAMPLED
        )
    for turn in range(partial_tiles(start, inner, outer, stop, BLOCK_N)):
        first = partial_tile(turn, start, inner, outer, BLOCK_N)
        s = tile(
            x,
            AT,
            BT,
            B,
            R,
            mode,
            own,
            BIAS,
            KEEP,
            low,
            high,
            i0,
            first,
            n,
            length,
            m,
            left,
            right,
            scale,
            stride_x,
            stride_y,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            KEPT,
            SPANNED,
            False,
            PRECISION,
            INTERPRETED,
        )
        top, sums, terms, best, index = _more(
            top, sums, terms, best, index, s, seed, i, first, head, batch, BLOCK_M, BLOCK_N, SAMPLED
        )
    full = (sums > 0) | (sums != sums)  # NaN: a row that sees what is no number
    sums = tl.where(full, sums, 1.0)
    at, real = g * n + i, i < n
    tl.store(INDEX + at, tl.where(full, index, -1), mask=real)
    tl.store(TAU + at, tl.where(full, top + tl.log2(sums), float("inf")), mask=real)
    # -sum p log2 p with log2 p = s - top - log2 sums
    tl.store(ENTROPY + at, tl.where(full, tl.log2(sums) - terms / sums, 0.0), mask=real)
