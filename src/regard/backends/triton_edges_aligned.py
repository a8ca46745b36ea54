"""Attention over edges on a GPU for alignments that need a whole row before they know one weight.

Bytes beside those of softmax's passes: 4 H E (7 + sweeps) forward and 4 H E 8 backward, with about 6 sweeps of a row
for sparsemax and entmax, 36 for top-k, none for the others; a row that fits in a cache is read from memory once.
GATv2 gathers two rows an edge forward, where softmax gathers one. Sparsemax over GAT's scores thus moves
E (W b + 60 H) forward and E (W b + 52 H) backward.
Design: scores (E, H) in target order; a program turns those of one row into weights in place (Newton's steps from the
left for tau, as in core.alignments.sparse; for top-k the k-th score bit by bit, then ties by place); the weights are
kept and sum the values. Backward: by sources dp and the gradient of the values, by rows ds, by sources the gradient of
the keys, by targets that of the queries. No atomics; cut rows are added in order.

ALIGN 0 sigmoid, 1 ReLU, 2 uniform, 3 sparsemax, 4 entmax 1.5, 5 top-k.
"""

import triton
import triton.language as tl

from .triton_edges_parts import (
    LOG2E,
    gather,
    joined,
    kept,
    over_edges,
    own,
    pull,
    put,
    put_key_gradient,
    put_rows,
    readout,
    rows,
    score,
    work_item,
)

STEPS = tl.constexpr(24)  # Newton's, as in core.alignments.sparse
EPS = tl.constexpr(1.1920929e-07)
TINY = tl.constexpr(1.1754944e-38)


@triton.jit
def score_kernel(
    items, source, edge, A, a_n, a_h, B, b_n, b_h, R, K, k_n, k_h, S, scale, slope,
    KIND: tl.constexpr, ACT: tl.constexpr, KEY: tl.constexpr, H: tl.constexpr, D: tl.constexpr, HP: tl.constexpr,
    DP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Scores of a target's edges, (E, H) in target order."""
    row, start, stop, _, _ = work_item(items, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    a = own(KIND, A, row, a_n, a_h, h, d, head, wide)
    r = readout(KIND, R, h, d, D, wide)
    for first in range(start, stop, BE):
        place = first + tl.arange(0, BE)
        real = place < stop
        b = gather(KIND, B, tl.load(source + place, mask=real, other=0), b_n, b_h, h, d, real, head, wide)
        if KEY != 0:
            ids = tl.load(edge + place, mask=real, other=0)
            b = joined(KEY, b, gather(KIND, K, ids, k_n, k_h, h, d, real, head, wide))
        s = score(KIND, ACT, a, b, r, scale, slope)
        tl.store(S + place.to(tl.int64)[:, None] * H + h[None, :], s, mask=real[:, None] & head[None, :])


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
    return tl.where(s != s, 0xFFFFFFFF, tl.where((bits >> 31) == 1, ~bits, bits | 0x80000000))


@triton.jit
def kth(S, start, stop, TOP, H: tl.constexpr, HP: tl.constexpr, BE: tl.constexpr):
    """(heads,) the k-th largest score of a row as `ordered` gives it, bit by bit; 0 where a row has k or fewer."""
    found = tl.zeros([HP], tl.uint32)
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
        bit = bit >> 1
    return found


@triton.jit
def chosen(level, real, limit, quota, ties):
    """Which of a block are among the k best, ties by place; `ties` counts those seen before."""
    equal = real & (level == limit[None, :])
    rank = ties[None, :] + tl.cumsum(tl.where(equal, 1, 0), 0)
    return real & ((level > limit[None, :]) | (equal & (rank <= quota[None, :])))


@triton.jit
def weights_kernel(
    work, edge, S, INDEX, bias, TOP, ROOM, MOST: tl.constexpr, ALIGN: tl.constexpr, COUNTED: tl.constexpr,
    H: tl.constexpr, HP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Scores of whole rows into weights, in place: rows of up to MOST pieces.

    COUNTED: the sigmoid's bias is -log of the number of edges. INDEX (n, H, ROOM): the ids that top-k chose.
    """
    row, start, stop, _, pieces = work_item(work, tl.program_id(0))
    if (row < 0) | (pieces > MOST):
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
            where = row * (H * ROOM) + h[None, :] * ROOM + rank
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
def aggregate_kernel(
    items, source, edge, V, v_n, v_h, X, x_n, x_h, P, OUT, PART, dropout, seed_ptr, item_of_batch,
    VALUE: tl.constexpr, DROP: tl.constexpr, IDS: tl.constexpr, H: tl.constexpr, DV: tl.constexpr, HP: tl.constexpr,
    DVP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """The weighted values of a target."""
    row, start, stop, slot, _ = work_item(items, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    dv = tl.arange(0, DVP)
    wide = (h < H)[:, None] & (dv < DV)[None, :]
    acc = tl.zeros([HP, DVP], tl.float32)
    if DROP:
        seed = tl.load(seed_ptr)
    for first in range(start, stop, BE):
        at, both = block(first, stop, H, HP, BE)
        place = first + tl.arange(0, BE)
        real = place < stop
        p = tl.load(P + at, mask=both, other=0.0)
        x = rows(V, tl.load(source + place, mask=real, other=0), v_n, v_h, 1, h, dv, real, wide)
        if IDS:
            ids = tl.load(edge + place, mask=real, other=0)
        if VALUE:
            x += rows(X, ids, x_n, x_h, 1, h, dv, real, wide)
        if DROP:
            p = p * kept(seed, ids, h, item_of_batch, dropout)
        acc += tl.sum(p[:, :, None] * x, 0)
    if slot >= 0:
        tl.store(PART + slot * (HP * DVP) + h[:, None] * DVP + dv[None, :], acc)
    else:
        put(OUT, row, acc, h, dv, H, DV, wide)


@triton.jit
def value_source_kernel(
    items, target, place_of, edge, V, v_n, v_h, X, x_n, x_h, P, DOUT, g_n, g_h, g_d, DWEIGHT, DV_, DX, PART,
    dropout, seed_ptr, item_of_batch, SCORES: tl.constexpr,
    VALUE: tl.constexpr, DROP: tl.constexpr, IDS: tl.constexpr, H: tl.constexpr, DV: tl.constexpr, HP: tl.constexpr,
    DVP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Backward, owned by a source: the gradient of its value, and of each edge's own; that of each weight (E, H)."""
    row, start, stop, slot, _ = work_item(items, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    dv = tl.arange(0, DVP)
    head = h < H
    wide = head[:, None] & (dv < DV)[None, :]
    v = own(1, V, row, v_n, v_h, h, dv, head, wide)
    dvalue = tl.zeros([HP, DVP], tl.float32)
    if DROP:
        seed = tl.load(seed_ptr)
    for first in range(start, stop, BE):
        place = first + tl.arange(0, BE)
        real = place < stop
        i = tl.load(target + place, mask=real, other=0)
        at = tl.load(place_of + place, mask=real, other=0).to(tl.int64)
        both = real[:, None] & head[None, :]
        line = at[:, None] * H + h[None, :]
        p = tl.load(P + line, mask=both, other=0.0)
        dout = rows(DOUT, i, g_n, g_h, g_d, h, dv, real, wide)
        if IDS:
            ids = tl.load(edge + at, mask=real, other=0)
        if DROP:
            factor = kept(seed, ids, h, item_of_batch, dropout)
            p = p * factor
        if SCORES:
            if VALUE:
                dp = tl.sum(dout * (v + rows(X, ids, x_n, x_h, 1, h, dv, real, wide)), 2)
            else:
                dp = tl.sum(dout * v, 2)
            if DROP:
                dp = dp * factor
            tl.store(DWEIGHT + line, dp, mask=both)
        share = p[:, :, None] * dout
        dvalue += tl.sum(share, 0)
        if VALUE:
            put_rows(DX, ids, share, h, dv, H, DV, real, wide)
    if slot >= 0:
        tl.store(PART + slot * (HP * DVP) + h[:, None] * DVP + dv[None, :], dvalue)
    else:
        put(DV_, row, dvalue, h, dv, H, DV, wide)


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


@triton.jit
def row_gradient_kernel(work, P, DS, MOST: tl.constexpr, ALIGN: tl.constexpr, H: tl.constexpr, HP: tl.constexpr,
                        BE: tl.constexpr):  # fmt: skip
    """ds = g (dw - sum g dw / sum g) of whole rows, in the place of dw; without the mean where rows sum to anything."""
    row, start, stop, _, pieces = work_item(work, tl.program_id(0))
    if (row < 0) | (pieces > MOST):
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


@triton.jit
def key_source_kernel(
    items, target, place_of, edge, A, a_n, a_h, B, b_n, b_h, R, K, k_n, k_h, DS, DB, DK, PART, scale, slope,
    KIND: tl.constexpr, ACT: tl.constexpr, KEY: tl.constexpr, H: tl.constexpr, D: tl.constexpr, HP: tl.constexpr,
    DP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Backward, owned by a source: the gradient of its key, and of each edge's own, from ds at its place.

    For GAT, ds goes on as the gradient of what stands under the LeakyReLU.
    """
    row, start, stop, slot, _ = work_item(items, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    b = own(KIND, B, row, b_n, b_h, h, d, head, wide)
    r = readout(KIND, R, h, d, D, wide)
    db = tl.zeros([HP, DP], tl.float32)
    for first in range(start, stop, BE):
        place = first + tl.arange(0, BE)
        real = place < stop
        i = tl.load(target + place, mask=real, other=0)
        at = tl.load(place_of + place, mask=real, other=0).to(tl.int64)
        both = real[:, None] & head[None, :]
        line = at[:, None] * H + h[None, :]
        ds = tl.load(DS + line, mask=both, other=0.0)
        a = gather(KIND, A, i, a_n, a_h, h, d, real, head, wide)
        whole = b
        if KEY != 0:
            ids = tl.load(edge + at, mask=real, other=0)
            k = gather(KIND, K, ids, k_n, k_h, h, d, real, head, wide)
            whole = joined(KEY, b, k)
        dk = pull(KIND, ACT, ds, a, whole, r, slope)
        if KIND == 0:
            tl.store(DS + line, dk, mask=both)
        if KEY != 0:
            put_key_gradient(KIND, KEY, DK, ids, dk, b, scale, h, d, H, D, real, head, wide)
            if KEY == 2:
                dk = dk * k
        db += over_edges(KIND, dk)
    if KIND == 2:
        db = db * scale
    if slot >= 0:
        tl.store(PART + slot * (HP * DP) + h[:, None] * DP + d[None, :], db)
    else:
        put(DB, row, db, h, d, H, D, wide)
