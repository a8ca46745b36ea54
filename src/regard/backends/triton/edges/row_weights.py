"""Scores of a row into weights on a GPU, and their gradients back: a program takes one row of a table (E, H), in place.

Bytes: 8 H a pass; about 6 more reads of a row for sparsemax and entmax, 20 for top-k, from a cache where the row fits.
Design: Newton's steps from the left for tau, as in core.alignments.sparse; for top-k the k-th score bit by bit, then
ties by place. A NaN among its scores makes the weights of a row NaN, and of no other.

ALIGN 0 sigmoid, 1 ReLU, 2 uniform, 3 sparsemax, 4 entmax 1.5, 5 top-k.
"""

import triton
import triton.language as tl

from ..runtime.fast_launcher import launched
from .primitives import LOG2E, work_item

STEPS = tl.constexpr(24)  # Newton's, as in core.alignments.sparse
EPS = tl.constexpr(1.1920929e-07)
TINY = tl.constexpr(1.1754944e-38)


@triton.jit
def block(first, stop, H: tl.constexpr, HP: tl.constexpr, BE: tl.constexpr):
    """Where some places stand in a table (E, H), and which of them there are."""
    place = first + tl.arange(0, BE)
    h = tl.arange(0, HP)
    return place.to(tl.int64)[:, None] * H + h[None, :], (place < stop)[:, None] & (h < H)[None, :]


@triton.jit
def largest(S, start, stop, H: tl.constexpr, HP: tl.constexpr, BE: tl.constexpr):
    """(heads,) of a row; NaN where one of its scores is."""
    top = tl.full([HP], -float("inf"), tl.float32)
    odd = tl.zeros([HP], tl.float32)
    for first in range(start, stop, BE):
        at, real = block(first, stop, H, HP, BE)
        s = tl.load(S + at, mask=real, other=-float("inf"))
        top = tl.maximum(top, tl.max(s, 0))
        odd += tl.sum(tl.where(s == s, 0.0, 1.0), 0)
    return tl.where(odd > 0, float("nan"), tl.where(tl.arange(0, HP) < H, top, 0.0))


@triton.jit
def threshold(S, start, stop, top, ALIGN: tl.constexpr, H: tl.constexpr, HP: tl.constexpr, BE: tl.constexpr):
    """tau - top: the root of sum f(s - tau) = 1, by Newton's steps from the left, which never pass it."""
    tau = tl.full([HP], -1.0 if ALIGN == 3 else -2.0, tl.float32)
    left = stop * 0 + STEPS
    while left > 0:
        total = tl.zeros([HP], tl.float32)
        slope = tl.zeros([HP], tl.float32)
        for first in range(start, stop, BE):
            at, real = block(first, stop, H, HP, BE)
            rest = tl.load(S + at, mask=real, other=-float("inf")) - top[None, :] - tau[None, :]
            rest = tl.where(rest > 0, rest, 0.0)
            if ALIGN == 3:
                total += tl.sum(rest, 0)
                slope += tl.sum(tl.where(rest > 0, 1.0, 0.0), 0)
            else:
                total += tl.sum(rest * rest, 0) * 0.25
                slope += tl.sum(rest, 0) * 0.5
        step = (total - 1.0) / tl.maximum(slope, TINY)
        step = tl.where(step > 0, step, 0.0)
        tau += step
        left = tl.where(tl.max(step, 0) > EPS, left - 1, 0)
    return tau


@triton.jit
def ordered(s):
    """uint32 that rise as the scores do; both zeros are one, NaN stands above all."""
    bits = tl.where(s == 0, 0.0, s).to(tl.uint32, bitcast=True)
    return tl.where(s != s, 0xFFFFFFFF, tl.where((bits >> 31) == 1, bits ^ 0xFFFFFFFF, bits | 0x80000000))


@triton.jit
def kth(S, start, stop, TOP, H: tl.constexpr, HP: tl.constexpr, BE: tl.constexpr):
    """(heads,) what the k largest scores of a row reach and no other exceeds, as `ordered` gives them.

    Bit by bit, until k scores exactly reach it, or to the k-th score itself where others equal that one; 0 where a row
    has k or fewer.
    """
    found = tl.zeros([HP], tl.uint32)
    open_heads = tl.where(tl.arange(0, HP) < H, 1, 0)
    bit = (stop * 0).to(tl.uint32) + 0x80000000
    if stop - start <= TOP:
        bit = bit * 0
    while bit > 0:
        trial = found | bit
        count = tl.zeros([HP], tl.int32)
        for first in range(start, stop, BE):
            at, real = block(first, stop, H, HP, BE)
            level = ordered(tl.load(S + at, mask=real, other=0.0))
            count += tl.sum(tl.where(real & (level >= trial[None, :]), 1, 0), 0)
        found = tl.where(count >= TOP, trial, found)
        open_heads = tl.where(count == TOP, 0, open_heads)
        bit = tl.where(tl.max(open_heads, 0) > 0, bit >> 1, bit * 0)
    return found


@triton.jit
def chosen(level, real, limit, quota, ties):
    """Which of a block are among the k best, ties by place; `ties` counts those seen before."""
    equal = real & (level == limit[None, :])
    rank = ties[None, :] + tl.cumsum(tl.where(equal, 1, 0), 0)
    return real & ((level > limit[None, :]) | (equal & (rank <= quota[None, :])))


@launched
@triton.jit
def weights_kernel(
    work,
    edge,
    S,
    INDEX,
    bias,
    TOP,
    CHOSEN,
    MAX_PIECES: tl.constexpr,
    ALIGN: tl.constexpr,
    COUNTED: tl.constexpr,
    H: tl.constexpr,
    HP: tl.constexpr,
    BE: tl.constexpr,
):
    """Scores of whole rows into weights, in place: rows of up to MAX_PIECES pieces.

    COUNTED: the sigmoid's bias is -log of the number of edges. INDEX (n, H, CHOSEN): the ids that top-k chose.
    """
    row, start, stop, _, pieces = work_item(work, tl.program_id(0))
    if (row < 0) | (pieces > MAX_PIECES):
        return
    h = tl.arange(0, HP)
    size = tl.maximum(stop - start, 1).to(tl.float32)
    top = tl.zeros([HP], tl.float32)
    tau = tl.zeros([HP], tl.float32)
    if ALIGN >= 3:
        top = largest(S, start, stop, H, HP, BE)
    if ALIGN == 3 or ALIGN == 4:
        tau = threshold(S, start, stop, top, ALIGN, H, HP, BE)
    if ALIGN == 5:
        limit = kth(S, start, stop, TOP, H, HP, BE)
        above = tl.zeros([HP], tl.int32)
        for first in range(start, stop, BE):
            at, real = block(first, stop, H, HP, BE)
            level = ordered(tl.load(S + at, mask=real, other=0.0))
            above += tl.sum(tl.where(real & (level > limit[None, :]), 1, 0), 0)
        quota = TOP - above
        ties = tl.zeros([HP], tl.int32)
        taken = tl.zeros([HP], tl.int32)
        total = tl.where(h < H, 0.0, 1.0)
        for first in range(start, stop, BE):
            at, real = block(first, stop, H, HP, BE)
            s = tl.load(S + at, mask=real, other=0.0)
            level = ordered(s)
            mine = chosen(level, real, limit, quota, ties)
            ties += tl.sum(tl.where(real & (level == limit[None, :]), 1, 0), 0)
            total += tl.sum(tl.where(mine, tl.exp2((s - top[None, :]) * LOG2E), 0.0), 0)
            place = first + tl.arange(0, BE)
            ids = tl.load(edge + place, mask=place < stop, other=0)
            rank = taken[None, :] + tl.cumsum(tl.where(mine, 1, 0), 0) - 1
            where = row * (H * CHOSEN) + h[None, :] * CHOSEN + rank
            tl.store(INDEX + where, ids[:, None].to(tl.int32) + rank * 0, mask=mine)
            taken += tl.sum(tl.where(mine, 1, 0), 0)
        ties = tl.zeros([HP], tl.int32)
    for first in range(start, stop, BE):
        at, real = block(first, stop, H, HP, BE)
        s = tl.load(S + at, mask=real & (ALIGN != 2), other=0.0)
        if ALIGN == 0:
            if COUNTED:
                p = 1.0 / (1.0 + size * tl.exp2(-s * LOG2E))
            else:
                p = 1.0 / (1.0 + tl.exp2(-(s + bias) * LOG2E))
        elif ALIGN == 1:
            p = tl.where(s <= 0, 0.0, s) / size
        elif ALIGN == 2:
            p = s * 0.0 + 1.0 / size
        elif ALIGN == 5:
            level = ordered(s)
            mine = chosen(level, real, limit, quota, ties)
            ties += tl.sum(tl.where(real & (level == limit[None, :]), 1, 0), 0)
            p = tl.where(mine, tl.exp2((s - top[None, :]) * LOG2E) / total[None, :], 0.0)
        else:
            x = s - top[None, :] - tau[None, :]
            p = tl.where(x <= 0, 0.0, x)
            if ALIGN == 4:
                p = p * p * 0.25
        tl.store(S + at, p, mask=real)


@triton.jit
def rate(ALIGN: tl.constexpr, p, size):
    """g = f'(s - tau) from the weight itself."""
    if ALIGN == 0:
        return p * (1.0 - p)
    elif ALIGN == 1:
        return tl.where(p > 0, 1.0 / size, 0.0)
    elif ALIGN == 3:
        return tl.where(p > 0, 1.0, 0.0)
    elif ALIGN == 4:
        return tl.sqrt(p)
    else:
        return p


@launched
@triton.jit
def row_gradient_kernel(
    work, P, DS, MAX_PIECES: tl.constexpr, ALIGN: tl.constexpr, H: tl.constexpr, HP: tl.constexpr, BE: tl.constexpr
):
    """ds = g (dw - sum g dw / sum g) of whole rows, in the place of dw; without the mean where rows sum to anything."""
    row, start, stop, _, pieces = work_item(work, tl.program_id(0))
    if (row < 0) | (pieces > MAX_PIECES):
        return
    size = tl.maximum(stop - start, 1).to(tl.float32)
    above = tl.zeros([HP], tl.float32)
    below = tl.zeros([HP], tl.float32)
    if ALIGN >= 3:
        for first in range(start, stop, BE):
            at, real = block(first, stop, H, HP, BE)
            g = rate(ALIGN, tl.load(P + at, mask=real, other=0.0), size)
            above += tl.sum(g * tl.load(DS + at, mask=real, other=0.0), 0)
            below += tl.sum(g, 0)
        above = above / tl.where(below == 0, 1.0, below)
    for first in range(start, stop, BE):
        at, real = block(first, stop, H, HP, BE)
        g = rate(ALIGN, tl.load(P + at, mask=real, other=0.0), size)
        tl.store(DS + at, g * (tl.load(DS + at, mask=real, other=0.0) - above[None, :]), mask=real)
