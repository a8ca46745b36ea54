"""Softmax attention over edges on a GPU, forward: one pass over the edges.

Bytes: E (W b + 4 H + 4) + N (W b + 8 H + 4) for GAT's score (W = H D, b bytes a feature). GATv2 gathers one row an
edge, a dot product two; an edge's own key moves once and so does its value; a key that is the value too moves once for
both.
Design: one program owns a target and all its heads, so an edge's index is read once; work is sorted by degree, largest
first; rows of more than PIECE edges are cut and their parts merged in order, so the result does not depend on timing
and no atomic is used. Measured beside the bound: docs/benchmarks.md.

tau is kept in base 2, so that the weight of a row's only edge comes back as exactly 1.
"""

import triton
import triton.language as tl

from ..runtime.fast_launcher import launched
from .primitives import LOG2E, gather, joined, kept, own, put, readout, rows, score, work_item


@launched
@triton.jit
def forward_kernel(
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
    V,
    v_n,
    v_h,
    X,
    x_n,
    x_h,
    OUT,
    TAU,
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
    row, start, stop, slot, _ = work_item(items, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    d = tl.arange(0, DP)
    dv = tl.arange(0, DVP)
    head = h < H
    wide = head[:, None] & (d < D)[None, :]
    wide_v = head[:, None] & (dv < DV)[None, :]
    a = own(KIND, A, row, a_n, a_h, h, d, head, wide)
    r = readout(KIND, R, h, d, D, wide)
    top = tl.full([HP], -float("inf"), tl.float32)
    total = tl.zeros([HP], tl.float32)
    acc = tl.zeros([HP, DVP], tl.float32)
    if DROP:
        seed = tl.load(seed_ptr)
    for first in range(start, stop, BE):
        place = first + tl.arange(0, BE)
        real = place < stop
        j = tl.load(source + place, mask=real, other=0)
        if IDS:
            ids = tl.load(edge + place, mask=real, other=0)
        b = gather(KIND, B, j, b_n, b_h, h, d, real, head, wide)
        whole = b
        if KEY != 0:
            k = gather(KIND, K, ids, k_n, k_h, h, d, real, head, wide)
            whole = joined(KEY, b, k)
        s = score(KIND, ACT, a, whole, r, scale, slope) * LOG2E
        s = tl.where(real[:, None], s, -float("inf"))
        if SHARED:
            x = b
        else:
            x = rows(V, j, v_n, v_h, 1, h, dv, real, wide_v)
        if VALUE == 1:
            x += rows(X, ids, x_n, x_h, 1, h, dv, real, wide_v)
        elif VALUE == 2:
            x += k
        higher = tl.maximum(top, tl.max(s, 0))
        rescale = tl.exp2(top - higher)
        p = tl.exp2(s - higher[None, :])
        total = total * rescale + tl.sum(p, 0)
        top = higher
        if DROP:
            p = p * kept(seed, ids, h, item_of_batch, dropout)
        acc = acc * rescale[:, None] + tl.sum(p[:, :, None] * x, 0)
    if slot >= 0:
        base = PART + slot * (HP * (DVP + 2))
        tl.store(base + h, top)
        tl.store(base + HP + h, total)
        tl.store(base + 2 * HP + h[:, None] * DVP + dv[None, :], acc)
    else:
        mass = tl.where(total > 0, total, 1.0)
        put(OUT, row, acc / mass[:, None], h, dv, H, DV, wide_v)
        tau = tl.where(total > 0, top + tl.log2(mass), float("inf"))
        tl.store(TAU + row * H + h, tau, mask=head)


@launched
@triton.jit
def merge_kernel(hubs, OUT, TAU, PART, H: tl.constexpr, DV: tl.constexpr, HP: tl.constexpr, DVP: tl.constexpr):
    """Parts of a cut row, in order."""
    row, _, _, slot, count = work_item(hubs, tl.program_id(0))
    if row < 0:
        return
    h = tl.arange(0, HP)
    dv = tl.arange(0, DVP)
    head = h < H
    top = tl.full([HP], -float("inf"), tl.float32)
    total = tl.zeros([HP], tl.float32)
    acc = tl.zeros([HP, DVP], tl.float32)
    for piece in range(count):
        base = PART + (slot + piece) * (HP * (DVP + 2))
        m = tl.load(base + h)
        higher = tl.maximum(top, m)
        rescale, share = tl.exp2(top - higher), tl.exp2(m - higher)
        total = total * rescale + tl.load(base + HP + h) * share
        part = tl.load(base + 2 * HP + h[:, None] * DVP + dv[None, :])
        acc = acc * rescale[:, None] + part * share[:, None]
        top = higher
    put(OUT, row, acc / total[:, None], h, dv, H, DV, head[:, None] & (dv < DV)[None, :])
    tl.store(TAU + row * H + h, top + tl.log2(total), mask=head)
