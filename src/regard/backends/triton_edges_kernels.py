"""Attention over edges on a GPU: forward and backward, one pass over the edges each way.

Bytes: E (W b + 4 H + 4) + N (W b + 8 H + 4) forward and about E (2 W b + 24 H + 12) with backward for GAT's score
(W = H D, b bytes a feature). GATv2 gathers one row an edge forward and three backward, a dot product two and three.
Design: one program owns a target (or a source, backward) and all its heads, so an edge's index is read once; work is
sorted by degree, largest first; rows of more than PIECE edges are cut and their parts merged in order, so the result
does not depend on timing and no atomic is used. The backward computes p again from tau; what it keeps for each edge is
one number a head. Measured beside the bound: docs/benchmarks.md.

tau is kept in base 2, so that the weight of a row's only edge comes back as exactly 1.
Scores: 0 = GAT, leaky(a_i + b_j); 1 = pair, r . leaky(a_i + b_j); 2 = dot, scale a_i . b_j.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _kept(seed, edge, head, item, dropout):
    """(edges, heads) 1 / (1 - p) or 0: Philox on (edge id, 0, head // 4, item), word head % 4."""
    zero = (edge[:, None] * 0 + head[None, :] * 0).to(tl.uint32)
    counter = edge[:, None].to(tl.uint32) + zero
    w0, w1, w2, w3 = tl.philox(seed, counter, zero, (head[None, :] // 4).to(tl.uint32) + zero, zero + item)
    lane = head[None, :] % 4
    word = tl.where(lane == 0, w0, tl.where(lane == 1, w1, tl.where(lane == 2, w2, w3)))
    unit = ((word >> 8).to(tl.float32) + 0.5) * 5.9604644775390625e-08
    return tl.where(unit >= dropout, 1.0 / (1.0 - dropout), 0.0)


@triton.jit
def _score(KIND: tl.constexpr, a, b, r, scale, slope):
    """(edges, heads) from a and b: (1, heads) and (edges, heads) for GAT, with a width axis else."""
    if KIND == 0:
        s = a + b
        return tl.where(s > 0, s, s * slope)
    elif KIND == 1:
        x = a + b
        return tl.sum(tl.where(x > 0, x, x * slope) * r, 2)
    else:
        return tl.sum(a * b, 2) * scale


@triton.jit
def _rows(base, index, stride_n, stride_h, h, d, mask):
    """(edges, heads, width) rows of a node-major tensor, fp32."""
    where = index.to(tl.int64)[:, None, None] * stride_n + h[None, :, None] * stride_h + d[None, None, :]
    return tl.load(base + where, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def forward_kernel(
    item_row, item_start, item_stop, item_slot, source, edge,
    A, a_n, a_h, B, b_n, b_h, V, v_n, v_h, R, OUT, o_n, o_h, TAU, PART,
    scale, slope, dropout, seed_ptr, item_of_batch,
    KIND: tl.constexpr, SHARED: tl.constexpr, DROP: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    HP: tl.constexpr, DP: tl.constexpr, DVP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    item = tl.program_id(0)
    row = tl.load(item_row + item).to(tl.int64)
    if row < 0:
        return
    start = tl.load(item_start + item)
    stop = tl.load(item_stop + item)
    slot = tl.load(item_slot + item)
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    dv = tl.arange(0, DVP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    wide_v = head[:, None] & (dv < DV)[None, :]
    r = tl.zeros([1, 1, 1], tl.float32)
    if KIND == 0:
        a = tl.load(A + row * a_n + h * a_h, mask=head, other=0.0).to(tl.float32)[None, :]
    else:
        a = tl.load(A + row * a_n + h[:, None] * a_h + d[None, :], mask=wide, other=0.0).to(tl.float32)[None, :, :]
        if KIND == 1:
            r = tl.load(R + h[:, None] * D + d[None, :], mask=wide, other=0.0).to(tl.float32)[None, :, :]
    top = tl.full([HP], -float("inf"), tl.float32)
    total = tl.zeros([HP], tl.float32)
    acc = tl.zeros([HP, DVP], tl.float32)
    if DROP:
        seed = tl.load(seed_ptr)
    for first in range(start, stop, BE):
        place = first + tl.arange(0, BE)
        real = place < stop
        j = tl.load(source + place, mask=real, other=0)
        if KIND == 0:
            b = tl.load(
                B + j.to(tl.int64)[:, None] * b_n + h[None, :] * b_h, mask=real[:, None] & head[None, :], other=0.0
            )
            b = b.to(tl.float32)
        else:
            b = _rows(B, j, b_n, b_h, h, d, real[:, None, None] & wide[None, :, :])
        s = _score(KIND, a, b, r, scale, slope) * LOG2E
        s = tl.where(real[:, None], s, -float("inf"))
        if SHARED:
            x = b
        else:
            x = _rows(V, j, v_n, v_h, h, dv, real[:, None, None] & wide_v[None, :, :])
        higher = tl.maximum(top, tl.max(s, 0))
        fade = tl.exp2(top - higher)
        p = tl.exp2(s - higher[None, :])
        total = total * fade + tl.sum(p, 0)
        top = higher
        if DROP:
            ids = tl.load(edge + place, mask=real, other=0)
            p = p * _kept(seed, ids, h, item_of_batch, dropout)
        acc = acc * fade[:, None] + tl.sum(p[:, :, None] * x, 0)
    if slot >= 0:
        base = PART + slot.to(tl.int64) * (HP * (DVP + 2))
        tl.store(base + h, top)
        tl.store(base + HP + h, total)
        tl.store(base + 2 * HP + h[:, None] * DVP + dv[None, :], acc)
    else:
        whole = tl.where(total > 0, total, 1.0)
        out = acc / whole[:, None]
        tl.store(OUT + row * o_n + h[:, None] * o_h + dv[None, :], out.to(OUT.dtype.element_ty), mask=wide_v)
        tau = tl.where(total > 0, top + tl.log2(whole), float("inf"))
        tl.store(TAU + row * H + h, tau, mask=head)


@triton.jit
def merge_kernel(
    order, pieces, first_slot, OUT, o_n, o_h, TAU, PART,
    H: tl.constexpr, DV: tl.constexpr, HP: tl.constexpr, DVP: tl.constexpr,
):  # fmt: skip
    """Parts of a cut row, in order."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    count = tl.load(pieces + row)
    if count <= 1:
        return
    slot = tl.load(first_slot + row).to(tl.int64)
    h = tl.arange(0, HP)
    dv = tl.arange(0, DVP)
    top = tl.full([HP], -float("inf"), tl.float32)
    total = tl.zeros([HP], tl.float32)
    acc = tl.zeros([HP, DVP], tl.float32)
    for piece in range(count):
        base = PART + (slot + piece) * (HP * (DVP + 2))
        m = tl.load(base + h)
        higher = tl.maximum(top, m)
        fade, share = tl.exp2(top - higher), tl.exp2(m - higher)
        total = total * fade + tl.load(base + HP + h) * share
        part = tl.load(base + 2 * HP + h[:, None] * DVP + dv[None, :])
        acc = acc * fade[:, None] + part * share[:, None]
        top = higher
    head = h < H
    out = acc / total[:, None]
    where = OUT + row * o_n + h[:, None] * o_h + dv[None, :]
    tl.store(where, out.to(OUT.dtype.element_ty), mask=head[:, None] & (dv < DV)[None, :])
    tl.store(TAU + row * H + h, top + tl.log2(total), mask=head)


@triton.jit
def delta_kernel(OUT, o_n, o_h, DOUT, g_n, g_h, TAU, A, a_n, a_h, PACK, n, KIND: tl.constexpr, H: tl.constexpr,
                 DV: tl.constexpr, HP: tl.constexpr, DVP: tl.constexpr):  # fmt: skip
    """(n, H, 4): tau, delta = dout . out and, for GAT, a: what an edge needs of its target, in one line."""
    row = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, HP)
    dv = tl.arange(0, DVP)
    head = h < H
    mask = head[:, None] & (dv < DV)[None, :]
    out = tl.load(OUT + row * o_n + h[:, None] * o_h + dv[None, :], mask=mask, other=0.0).to(tl.float32)
    dout = tl.load(DOUT + row * g_n + h[:, None] * g_h + dv[None, :], mask=mask, other=0.0).to(tl.float32)
    base = PACK + row * (H * 4) + h * 4
    tl.store(base, tl.load(TAU + row * H + h, mask=head, other=0.0), mask=head)
    tl.store(base + 1, tl.sum(out * dout, 1), mask=head)
    if KIND == 0:
        tl.store(base + 2, tl.load(A + row * a_n + h * a_h, mask=head, other=0.0).to(tl.float32), mask=head)


@triton.jit
def source_kernel(
    item_row, item_start, item_stop, item_slot, target, place_of, edge,
    A, a_n, a_h, B, b_n, b_h, V, v_n, v_h, R, DOUT, g_n, g_h, PACK, DB, db_n, db_h, DV_, dv_n, dv_h, DS, PART,
    scale, slope, dropout, seed_ptr, item_of_batch,
    KIND: tl.constexpr, SHARED: tl.constexpr, DROP: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    HP: tl.constexpr, DP: tl.constexpr, DVP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Backward, owned by a source: its key and value stay in registers; dout (and the query) of targets are gathered.

    Writes the gradients of the key and the value, and ds of each edge at its place in target order, (E, H).
    """
    item = tl.program_id(0)
    row = tl.load(item_row + item).to(tl.int64)
    if row < 0:
        return
    start = tl.load(item_start + item)
    stop = tl.load(item_stop + item)
    slot = tl.load(item_slot + item)
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    dv = tl.arange(0, DVP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    wide_v = head[:, None] & (dv < DV)[None, :]
    r = tl.zeros([1, 1, 1], tl.float32)
    if KIND == 0:
        b = tl.load(B + row * b_n + h * b_h, mask=head, other=0.0).to(tl.float32)[None, :]
        db = tl.zeros([HP, 1], tl.float32)
    else:
        b = tl.load(B + row * b_n + h[:, None] * b_h + d[None, :], mask=wide, other=0.0).to(tl.float32)[None, :, :]
        db = tl.zeros([HP, DP], tl.float32)
        if KIND == 1:
            r = tl.load(R + h[:, None] * D + d[None, :], mask=wide, other=0.0).to(tl.float32)[None, :, :]
    v = tl.load(V + row * v_n + h[:, None] * v_h + dv[None, :], mask=wide_v, other=0.0).to(tl.float32)[None, :, :]
    dvalue = tl.zeros([HP, DVP], tl.float32)
    if DROP:
        seed = tl.load(seed_ptr)
    for first in range(start, stop, BE):
        place = first + tl.arange(0, BE)
        real = place < stop
        i = tl.load(target + place, mask=real, other=0).to(tl.int64)
        at = tl.load(place_of + place, mask=real, other=0).to(tl.int64)
        both = real[:, None] & head[None, :]
        line = PACK + i[:, None] * (H * 4) + h[None, :] * 4
        tau = tl.load(line, mask=both, other=float("inf"))
        delta = tl.load(line + 1, mask=both, other=0.0)
        if KIND == 0:
            a = tl.load(line + 2, mask=both, other=0.0)
        else:
            a = _rows(A, i, a_n, a_h, h, d, real[:, None, None] & wide[None, :, :])
        dout = _rows(DOUT, i, g_n, g_h, h, dv, real[:, None, None] & wide_v[None, :, :])
        s = _score(KIND, a, b, r, scale, slope)
        p = tl.where(both, tl.exp2(s * LOG2E - tau), 0.0)
        dp = tl.sum(dout * v, 2)
        kept = p
        if DROP:
            factor = _kept(seed, tl.load(edge + at, mask=real, other=0), h, item_of_batch, dropout)
            dp = dp * factor
            kept = p * factor
        ds = p * (dp - delta)
        dvalue += tl.sum(kept[:, :, None] * dout, 0)
        if KIND == 0:
            ds = tl.where(a + b > 0, ds, ds * slope)
            db += tl.sum(ds, 0)[:, None]
        elif KIND == 1:
            db += tl.sum(ds[:, :, None] * tl.where(a + b > 0, r, r * slope), 0)
        else:
            db += tl.sum(ds[:, :, None] * a, 0) * scale
        tl.store(DS + at[:, None] * H + h[None, :], ds, mask=both)
    if SHARED:
        dvalue += db
    if slot >= 0:
        size: tl.constexpr = HP * (DVP + DP)
        base = PART + slot.to(tl.int64) * size
        tl.store(base + h[:, None] * DVP + dv[None, :], dvalue)
        if KIND == 0:
            tl.store(base + HP * DVP + h[:, None], db)
        else:
            tl.store(base + HP * DVP + h[:, None] * DP + d[None, :], db)
    else:
        tl.store(DV_ + row * dv_n + h[:, None] * dv_h + dv[None, :], dvalue.to(DV_.dtype.element_ty), mask=wide_v)
        if KIND == 0:
            tl.store(DB + row * db_n + h[:, None] * db_h, db.to(DB.dtype.element_ty), mask=head[:, None])
        elif not SHARED:
            tl.store(DB + row * db_n + h[:, None] * db_h + d[None, :], db.to(DB.dtype.element_ty), mask=wide)


@triton.jit
def source_merge_kernel(
    order, pieces, first_slot, DB, db_n, db_h, DV_, dv_n, dv_h, PART,
    SHARED: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr,
    DVP: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    count = tl.load(pieces + row)
    if count <= 1:
        return
    slot = tl.load(first_slot + row).to(tl.int64)
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    dv = tl.arange(0, DVP)
    db = tl.zeros([HP, DP], tl.float32)
    dvalue = tl.zeros([HP, DVP], tl.float32)
    size: tl.constexpr = HP * (DVP + DP)
    for piece in range(count):
        base = PART + (slot + piece) * size
        dvalue += tl.load(base + h[:, None] * DVP + dv[None, :])
        db += tl.load(base + HP * DVP + h[:, None] * DP + d[None, :])
    head = (h < H)[:, None]
    where = DV_ + row * dv_n + h[:, None] * dv_h + dv[None, :]
    tl.store(where, dvalue.to(DV_.dtype.element_ty), mask=head & (dv < DV)[None, :])
    if not SHARED:
        where = DB + row * db_n + h[:, None] * db_h + d[None, :]
        tl.store(where, db.to(DB.dtype.element_ty), mask=head & (d < D)[None, :])


@triton.jit
def target_kernel(
    item_row, item_start, item_stop, item_slot, items, source,
    A, a_n, a_h, B, b_n, b_h, R, DS, DA, da_n, da_h, DR, PART, scale, slope,
    KIND: tl.constexpr, H: tl.constexpr, D: tl.constexpr, HP: tl.constexpr, DP: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    """Backward, owned by targets: the gradient of the query from ds; a program takes every so many items.

    GAT reads ds alone. The readout's gradient is summed by each program over its own items, (programs, H, D).
    """
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    dr = tl.zeros([HP, DP], tl.float32)
    r = tl.zeros([1, 1, 1], tl.float32)
    if KIND == 1:
        r = tl.load(R + h[:, None] * D + d[None, :], mask=wide, other=0.0).to(tl.float32)[None, :, :]
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        row = tl.load(item_row + item).to(tl.int64)
        if row >= 0:
            start = tl.load(item_start + item)
            stop = tl.load(item_stop + item)
            slot = tl.load(item_slot + item)
            da = tl.zeros([HP, DP], tl.float32)
            if KIND == 1:
                a = tl.load(A + row * a_n + h[:, None] * a_h + d[None, :], mask=wide, other=0.0).to(tl.float32)[
                    None, :, :
                ]
            for first in range(start, stop, BE):
                place = first + tl.arange(0, BE)
                real = place < stop
                both = real[:, None] & head[None, :]
                ds = tl.load(DS + place.to(tl.int64)[:, None] * H + h[None, :], mask=both, other=0.0)
                if KIND == 0:
                    da += tl.sum(ds, 0)[:, None]
                else:
                    j = tl.load(source + place, mask=real, other=0)
                    b = _rows(B, j, b_n, b_h, h, d, real[:, None, None] & wide[None, :, :])
                    if KIND == 1:
                        x = a + b
                        da += tl.sum(ds[:, :, None] * tl.where(x > 0, r, r * slope), 0)
                        dr += tl.sum(ds[:, :, None] * tl.where(x > 0, x, x * slope), 0)
                    else:
                        da += tl.sum(ds[:, :, None] * b, 0) * scale
            if slot >= 0:
                tl.store(PART + slot.to(tl.int64) * (HP * DP) + h[:, None] * DP + d[None, :], da)
            else:
                tl.store(DA + row * da_n + h[:, None] * da_h + d[None, :], da.to(DA.dtype.element_ty), mask=wide)
    if KIND == 1:
        where = DR + tl.program_id(0).to(tl.int64) * (H * D) + h[:, None] * D + d[None, :]
        tl.store(where, dr, mask=wide)


@triton.jit
def target_merge_kernel(order, pieces, first_slot, DA, da_n, da_h, PART, H: tl.constexpr, D: tl.constexpr,
                        HP: tl.constexpr, DP: tl.constexpr):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    count = tl.load(pieces + row)
    if count <= 1:
        return
    slot = tl.load(first_slot + row).to(tl.int64)
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    da = tl.zeros([HP, DP], tl.float32)
    for piece in range(count):
        da += tl.load(PART + (slot + piece) * (HP * DP) + h[:, None] * DP + d[None, :])
    where = DA + row * da_n + h[:, None] * da_h + d[None, :]
    tl.store(where, da.to(DA.dtype.element_ty), mask=(h < H)[:, None] & (d < D)[None, :])
