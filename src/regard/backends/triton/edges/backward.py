"""Softmax attention over edges on a GPU, backward: a pass owned by sources, then one owned by targets.

Bytes: about E (2 W b + 24 H + 12) with the forward for GAT's score (W = H D, b bytes a feature). GATv2 and a dot
product gather three rows an edge; an edge's own key moves three times, its gradient among them (one number a head for
GAT), its value twice; a key that is the value too moves three times for both.
Design: as the forward's, with one program for a source (or a target) and all its heads. It computes p again from tau;
what it keeps for each edge is one number a head, ds. Measured beside the bound: docs/benchmarks.md.
"""

import triton
import triton.language as tl

from ..runtime.fast_launcher import launched
from .primitives import (
    LOG2E,
    act,
    bent,
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


@launched
@triton.jit
def delta_kernel(
    OUT,
    DOUT,
    g_n,
    g_h,
    g_d,
    TAU,
    A,
    a_n,
    a_h,
    PACK,
    KIND: tl.constexpr,
    H: tl.constexpr,
    DV: tl.constexpr,
    HP: tl.constexpr,
    DVP: tl.constexpr,
):
    """(n, H, 4): tau, delta = dout . out and, for GAT, a: what an edge needs of its target, in one line."""
    row = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, HP)
    dv = tl.arange(0, DVP)
    head = h < H
    mask = head[:, None] & (dv < DV)[None, :]
    out = tl.load(OUT + row * (H * DV) + h[:, None] * DV + dv[None, :], mask=mask, other=0.0).to(tl.float32)
    dout = tl.load(DOUT + row * g_n + h[:, None] * g_h + dv[None, :] * g_d, mask=mask, other=0.0).to(tl.float32)
    base = PACK + row * (H * 4) + h * 4
    tl.store(base, tl.load(TAU + row * H + h, mask=head, other=0.0), mask=head)
    tl.store(base + 1, tl.sum(out * dout, 1), mask=head)
    if KIND == 0:
        tl.store(base + 2, tl.load(A + row * a_n + h * a_h, mask=head, other=0.0).to(tl.float32), mask=head)


@launched
@triton.jit
def source_kernel(
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
    V,
    v_n,
    v_h,
    X,
    x_n,
    x_h,
    DOUT,
    g_n,
    g_h,
    g_d,
    PACK,
    DB,
    DV_,
    DK,
    DX,
    DS,
    PART,
    scale,
    slope,
    dropout,
    seed_ptr,
    item_of_batch,
    KIND: tl.constexpr,
    ACT: tl.constexpr,
    KEY: tl.constexpr,
    VALUE: tl.constexpr,
    DROP: tl.constexpr,
    IDS: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    HP: tl.constexpr,
    DP: tl.constexpr,
    DVP: tl.constexpr,
    SHARED: tl.constexpr,
    BE: tl.constexpr,
):
    """Backward, owned by a source: its key and value stay in registers; dout (and the query) of targets are gathered.

    Writes the gradients of the key and the value, those of each edge's own at its id, and ds of each edge at its place
    in target order, (E, H).
    """
    row, start, stop, slot, _ = work_item(items, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    dv = tl.arange(0, DVP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    wide_v = head[:, None] & (dv < DV)[None, :]
    b = own(KIND, B, row, b_n, b_h, h, d, head, wide)
    r = readout(KIND, R, h, d, D, wide)
    v = own(1, V, row, v_n, v_h, h, dv, head, wide_v)
    db = tl.zeros([HP, DP], tl.float32)
    dvalue = tl.zeros([HP, DVP], tl.float32)
    if DROP:
        seed = tl.load(seed_ptr)
    for first in range(start, stop, BE):
        place = first + tl.arange(0, BE)
        real = place < stop
        i = tl.load(target + place, mask=real, other=0).to(tl.int64)
        at = tl.load(place_of + place, mask=real, other=0).to(tl.int64)
        if IDS:
            ids = tl.load(edge + at, mask=real, other=0)
        both = real[:, None] & head[None, :]
        line = PACK + i[:, None] * (H * 4) + h[None, :] * 4
        tau = tl.load(line, mask=both, other=float("inf"))
        delta = tl.load(line + 1, mask=both, other=0.0)
        if KIND == 0:
            a = tl.load(line + 2, mask=both, other=0.0)
        else:
            a = rows(A, i, a_n, a_h, 1, h, d, real, wide)
        dout = rows(DOUT, i, g_n, g_h, g_d, h, dv, real, wide_v)
        whole = b
        if KEY != 0:
            k = gather(KIND, K, ids, k_n, k_h, h, d, real, head, wide)
            whole = joined(KEY, b, k)
        s = score(KIND, ACT, a, whole, r, scale, slope)
        p = tl.where(both, tl.exp2(s * LOG2E - tau), 0.0)
        if VALUE == 1:
            dp = tl.sum(dout * (v + rows(X, ids, x_n, x_h, 1, h, dv, real, wide_v)), 2)
        elif VALUE == 2:
            dp = tl.sum(dout * (v + k), 2)
        else:
            dp = tl.sum(dout * v, 2)
        weight = p
        if DROP:
            factor = kept(seed, ids, h, item_of_batch, dropout)
            dp = dp * factor
            weight = p * factor
        ds = p * (dp - delta)
        share = weight[:, :, None] * dout
        dvalue += tl.sum(share, 0)
        if VALUE == 1:
            put_rows(1, DX, ids, share, h, dv, H, DV, real, head, wide_v)
        dk = pull(KIND, ACT, ds, a, whole, r, slope)
        if KIND == 0:
            ds = dk
        if KEY != 0:
            mine = own_key(KIND, KEY, dk, b, scale)
            if VALUE == 2:
                mine += share
            put_rows(KIND, DK, ids, mine, h, d, H, D, real, head, wide)
            if KEY == 2:
                dk = dk * k
        db += over_edges(KIND, dk)
        tl.store(DS + at[:, None] * H + h[None, :], ds, mask=both)
    if KIND == 2:
        db = db * scale
    if SHARED:
        dvalue += db
    if slot >= 0:
        base = PART + slot * (HP * (DVP + DP))
        tl.store(base + h[:, None] * DVP + dv[None, :], dvalue)
        tl.store(base + HP * DVP + h[:, None] * DP + d[None, :], db)
    else:
        put(DV_, row, dvalue, h, dv, H, DV, wide_v)
        if not SHARED:
            put(DB, row, db, h, d, H, D, wide)


@launched
@triton.jit
def source_merge_kernel(
    hubs,
    DB,
    DV_,
    PART,
    H: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    HP: tl.constexpr,
    DP: tl.constexpr,
    DVP: tl.constexpr,
    SHARED: tl.constexpr,
):
    row, _, _, slot, count = work_item(hubs, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    dv = tl.arange(0, DVP)
    db = tl.zeros([HP, DP], tl.float32)
    dvalue = tl.zeros([HP, DVP], tl.float32)
    for piece in range(count):
        base = PART + (slot + piece) * (HP * (DVP + DP))
        dvalue += tl.load(base + h[:, None] * DVP + dv[None, :])
        db += tl.load(base + HP * DVP + h[:, None] * DP + d[None, :])
    head = (h < H)[:, None]
    put(DV_, row, dvalue, h, dv, H, DV, head & (dv < DV)[None, :])
    if not SHARED:
        put(DB, row, db, h, d, H, D, head & (d < D)[None, :])


@launched
@triton.jit
def target_kernel(
    items,
    count,
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
    DS,
    DA,
    DR,
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
    """Backward, owned by targets: the gradient of the query from ds; a program takes every so many items.

    GAT reads ds alone. The readout's gradient is summed by each program over its own items, (programs, H, D).
    """
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    dr = tl.zeros([HP, DP], tl.float32)
    r = readout(KIND, R, h, d, D, wide)
    for item in range(tl.program_id(0), count, tl.num_programs(0)):
        row, start, stop, slot, _ = work_item(items, item)
        if row >= 0:
            da = tl.zeros([HP, DP], tl.float32)
            if KIND == 1:
                a = own(KIND, A, row, a_n, a_h, h, d, head, wide)
            for first in range(start, stop, BE):
                place = first + tl.arange(0, BE)
                real = place < stop
                both = real[:, None] & head[None, :]
                ds = tl.load(DS + place.to(tl.int64)[:, None] * H + h[None, :], mask=both, other=0.0)
                if KIND == 0:
                    da += tl.sum(ds, 0)[:, None]
                else:
                    j = tl.load(source + place, mask=real, other=0)
                    b = rows(B, j, b_n, b_h, 1, h, d, real, wide)
                    if KEY != 0:
                        ids = tl.load(edge + place, mask=real, other=0)
                        b = joined(KEY, b, rows(K, ids, k_n, k_h, 1, h, d, real, wide))
                    if KIND == 1:
                        x = a + b
                        da += tl.sum(ds[:, :, None] * bent(ACT, x, r, slope), 0)
                        dr += tl.sum(ds[:, :, None] * act(ACT, x, slope), 0)
                    else:
                        da += tl.sum(ds[:, :, None] * b, 0)
            if KIND == 2:
                da = da * scale
            if slot >= 0:
                tl.store(PART + slot * (HP * DP) + h[:, None] * DP + d[None, :], da)
            else:
                put(DA, row, da, h, d, H, D, wide)
    if KIND == 1:
        put(DR, tl.program_id(0).to(tl.int64), dr, h, d, H, D, wide)


@launched
@triton.jit
def sum_kernel(hubs, OUT, PART, H: tl.constexpr, W: tl.constexpr, HP: tl.constexpr, WP: tl.constexpr):
    """The parts (H, W) of a cut row, added in order."""
    row, _, _, slot, count = work_item(hubs, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    w = tl.arange(0, WP)
    total = tl.zeros([HP, WP], tl.float32)
    for piece in range(count):
        total += tl.load(PART + (slot + piece) * (HP * WP) + h[:, None] * WP + w[None, :])
    put(OUT, row, total, h, w, H, W, (h < H)[:, None] & (w < W)[None, :])
