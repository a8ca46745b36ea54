"""Attention over edges on a GPU through the weights of each edge: for alignments that need a whole row before they know
one of them.

Bytes: those of softmax's passes and about 4 H E (8 + sweeps) forward, 4 H E 9 backward (see row_weights for
the sweeps); GATv2 gathers two rows an edge forward, where softmax gathers one.
Design: scores (E, H) in target order become weights in place, which are kept and sum the values. Backward: by sources
the gradients of weights and values, by rows that of scores, by sources that of keys, by targets that of queries (the
pass that softmax has). No atomics; cut rows are added in order.
"""

import triton
import triton.language as tl

from ..runtime.fast_launcher import launched
from .primitives import (
    gather,
    joined,
    kept,
    over_edges,
    own,
    own_key,
    pull,
    put,
    put_rows,
    readout,
    rows,
    score,
    work_item,
)
from .row_weights import block


@launched
@triton.jit
def score_kernel(
    items,
    source,
    edge,
    A,
    a_n,
    a_h,
    B,
    b_n,
    b_h,
    R,
    K,
    k_n,
    k_h,
    S,
    scale,
    slope,
    KIND: tl.constexpr,
    ACT: tl.constexpr,
    KEY: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    HP: tl.constexpr,
    DP: tl.constexpr,
    BE: tl.constexpr,
):
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


@launched
@triton.jit
def aggregate_kernel(
    items,
    source,
    edge,
    V,
    v_n,
    v_h,
    X,
    x_n,
    x_h,
    P,
    OUT,
    PART,
    dropout,
    seed_ptr,
    item_of_batch,
    VALUE: tl.constexpr,
    DROP: tl.constexpr,
    IDS: tl.constexpr,
    H: tl.constexpr,
    DV: tl.constexpr,
    HP: tl.constexpr,
    DVP: tl.constexpr,
    BE: tl.constexpr,
):
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
        if VALUE == 1:
            x += rows(X, ids, x_n, x_h, 1, h, dv, real, wide)
        if DROP:
            p = p * kept(seed, ids, h, item_of_batch, dropout)
        acc += tl.sum(p[:, :, None] * x, 0)
    if slot >= 0:
        tl.store(PART + slot * (HP * DVP) + h[:, None] * DVP + dv[None, :], acc)
    else:
        put(OUT, row, acc, h, dv, H, DV, wide)


@launched
@triton.jit
def value_source_kernel(
    items,
    target,
    place_of,
    edge,
    V,
    v_n,
    v_h,
    X,
    x_n,
    x_h,
    P,
    DOUT,
    g_n,
    g_h,
    g_d,
    DWEIGHT,
    DV_,
    DX,
    PART,
    dropout,
    seed_ptr,
    item_of_batch,
    SCORES: tl.constexpr,
    VALUE: tl.constexpr,
    DROP: tl.constexpr,
    IDS: tl.constexpr,
    H: tl.constexpr,
    DV: tl.constexpr,
    HP: tl.constexpr,
    DVP: tl.constexpr,
    BE: tl.constexpr,
):
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
            if VALUE == 1:
                dp = tl.sum(dout * (v + rows(X, ids, x_n, x_h, 1, h, dv, real, wide)), 2)
            else:
                dp = tl.sum(dout * v, 2)
            if DROP:
                dp = dp * factor
            tl.store(DWEIGHT + line, dp, mask=both)
        share = p[:, :, None] * dout
        dvalue += tl.sum(share, 0)
        if VALUE == 1:
            put_rows(1, DX, ids, share, h, dv, H, DV, real, head, wide)
    if slot >= 0:
        tl.store(PART + slot * (HP * DVP) + h[:, None] * DVP + dv[None, :], dvalue)
    else:
        put(DV_, row, dvalue, h, dv, H, DV, wide)


@launched
@triton.jit
def key_source_kernel(
    items,
    target,
    place_of,
    edge,
    A,
    a_n,
    a_h,
    B,
    b_n,
    b_h,
    R,
    K,
    k_n,
    k_h,
    DS,
    DB,
    DK,
    PART,
    scale,
    slope,
    KIND: tl.constexpr,
    ACT: tl.constexpr,
    KEY: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    HP: tl.constexpr,
    DP: tl.constexpr,
    BE: tl.constexpr,
):
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
            mine = own_key(KIND, KEY, dk, b, scale)
            put_rows(KIND, DK, ids, mine, h, d, H, D, real, head, wide)
            if KEY == 2:
                dk = dk * k
        db += over_edges(KIND, dk)
    if KIND == 2:
        db = db * scale
    if slot >= 0:
        tl.store(PART + slot * (HP * DP) + h[:, None] * DP + d[None, :], db)
    else:
        put(DB, row, db, h, d, H, D, wide)
