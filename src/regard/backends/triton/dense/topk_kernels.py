"""Softmax over the k best keys of each row on a GPU: one walk over all pairs finds them, the rest is O(n k).

    select_kernel    a row's k largest scores and their keys (row_topk)
    average_kernel   out_i = sum_s w_is v_index
    row_kernel       the gradient of the kept scores, of queries and of the readout: loops over the k slots of a row
    key_kernel       the gradients of keys and values: each key walks over the rows that keep it, in their order

No score is computed twice and nothing is added by two programs. CORE as in `primitives`.
"""

import triton
import triton.language as tl

from ..common.range_masks import CHANGING, length_of, narrowed, partial_tile, partial_tiles, span_of, tiles_of
from ..runtime.fast_launcher import launched
from .primitives import rows_of
from .row_topk import pack_largest, put_above
from .tile import block_of, row_side, tile


@triton.jit
def _keep(
    s,
    VALUES,
    PLACES,
    COUNTS,
    BOUNDS,
    row,
    bound,
    count,
    first,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BUFFER: tl.constexpr,
    FEW: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One more tile. What is no number is the largest, as torch.topk has it."""
    s = tl.where(s != s, float("inf"), s)
    above = s > bound[:, None]
    more = tl.sum(above.to(tl.int32), 1)
    if tl.max(more, 0) > 0:
        if tl.max(count + more, 0) > BUFFER:
            bound, count = pack_largest(VALUES, PLACES, COUNTS, BOUNDS, row, count, k, BLOCK_M, BUFFER, FEW)
            above = s > bound[:, None]
        count = put_above(VALUES, PLACES, row, s, above, count, first, BLOCK_M, BLOCK_N, BUFFER, True, INTERPRETED)
    return bound, count


@launched
@triton.jit(do_not_specialize=CHANGING)
def select_kernel(
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
    VALUES,
    PLACES,
    COUNTS,
    BOUNDS,
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
    k,
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
    BUFFER: tl.constexpr,
    FEW: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """The front of VALUES and PLACES (g, rows, BUFFER): a row's k largest scores, in order, and their keys; COUNTS."""
    g, batch, head, i0, i = block_of(n, heads, BLOCK_M)
    length = length_of(LENGTHS, batch, m, PADDED)
    shared = g // group  # the head of keys
    x, mode, own = row_side(A, MODES + shared, OWN, g, i, n, CORE, D, DP, OWNED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + shared * WIDTH * stride_y, R + g * (WIDTH + 1)
    B, BIAS, KEEP = B + shared * m * D, BIAS + g * m, KEEP + batch * keep_b + head * keep_h
    row = g * tl.num_programs(0) * BLOCK_M + i0
    bound, count = tl.full([BLOCK_M], -float("inf"), tl.float32), tl.zeros([BLOCK_M], tl.int32)
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
        bound, count = _keep(
            s, VALUES, PLACES, COUNTS, BOUNDS, row, bound, count, first, k, BLOCK_M, BLOCK_N, BUFFER, FEW, INTERPRETED
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
        bound, count = _keep(
            s, VALUES, PLACES, COUNTS, BOUNDS, row, bound, count, first, k, BLOCK_M, BLOCK_N, BUFFER, FEW, INTERPRETED
        )
    bound, count = pack_largest(VALUES, PLACES, COUNTS, BOUNDS, row, count, k, BLOCK_M, BUFFER, FEW)
    tl.store(COUNTS + row + tl.arange(0, BLOCK_M), count)


@triton.jit
def _block(n, BLOCK_M: tl.constexpr):
    """A head of queries, its rows, and which of them are there."""
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    return tl.program_id(1).to(tl.int64), i, i < n


@triton.jit
def rows_at(base, index, real, D: tl.constexpr, DP: tl.constexpr):
    """(rows, DP) fp32 of a contiguous table, at an index."""
    d = tl.arange(0, DP)
    mask = real[:, None] & (d < D)[None, :]
    return tl.load(base + index.to(tl.int64)[:, None] * D + d[None, :], mask=mask, other=0.0).to(tl.float32)


@launched
@triton.jit(do_not_specialize=CHANGING)
def average_kernel(W, INDEX, V, OUT, n, m, k, group, DV: tl.constexpr, DVP: tl.constexpr, BLOCK_M: tl.constexpr):
    """W (g, n, k): weights as they multiply values; 0 where INDEX is -1."""
    g, i, real = _block(n, BLOCK_M)
    V += g // group * m * DV
    acc = tl.zeros([BLOCK_M, DVP], tl.float32)
    slot = (g * n + i) * k
    for s in range(k):
        j = tl.load(INDEX + slot + s, mask=real, other=-1)
        w = tl.load(W + slot + s, mask=real, other=0.0)
        acc += w[:, None] * rows_at(V, j, j >= 0, DV, DVP)
    d = tl.arange(0, DVP)
    mask = real[:, None] & (d < DV)[None, :]
    tl.store(OUT + (g * n + i)[:, None] * DV + d[None, :], acc.to(OUT.dtype.element_ty), mask=mask)


@triton.jit
def hidden(z, linear, bent, CORE: tl.constexpr):
    """act(z) and its slope: tanh (CORE 1), or linear z + bent |z|; its slope at 0 is that below (2), or 0."""
    if CORE == 1:
        t = 1.0 - 2.0 / (1.0 + tl.exp2(tl.minimum(z * 2.8853900817779268, 126.0)))
        return t, 1.0 - t * t
    else:
        below = -1.0 if CORE == 2 else 0.0
        return linear * z + bent * tl.abs(z), linear + bent * tl.where(z > 0, 1.0, tl.where(z < 0, -1.0, below))


@launched
@triton.jit(do_not_specialize=CHANGING)
def row_kernel(
    A,
    B,
    V,
    R,
    DOUT,
    INDEX,
    P,
    W,
    PARTS,
    DS,
    DA,
    READS,
    n,
    m,
    k,
    group,
    scale,
    linear,
    bent,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    DV: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """DS (g, n, k) = W dw - P sum W dw, where P are weights before dropout and W after; DA; READS (g, blocks, DP)."""
    g, i, real = _block(n, BLOCK_M)
    B, V = B + g // group * m * D, V + g // group * m * DV
    slot = (g * n + i) * k
    dout = rows_at(DOUT + g * n * DV, i, real, DV, DVP)
    mean = tl.zeros([BLOCK_M], tl.float32)
    for s in range(k):
        j = tl.load(INDEX + slot + s, mask=real, other=-1)
        part = tl.load(W + slot + s, mask=real, other=0.0) * tl.sum(dout * rows_at(V, j, j >= 0, DV, DVP), 1)
        mean += part
        tl.store(PARTS + slot + s, part, mask=real)
    a = rows_at(A + g * n * D, i, real, D, DP)
    da, read = tl.zeros([BLOCK_M, DP], tl.float32), tl.zeros([BLOCK_M, DP], tl.float32)
    d = tl.arange(0, DP)
    r = tl.zeros([1, DP], tl.float32)
    if CORE > 0:
        r = tl.load(R + g * D + d, mask=d < D, other=0.0)[None, :]
    tl.debug_barrier()
    for s in range(k):
        j = tl.load(INDEX + slot + s, mask=real, other=-1)
        ds = tl.load(PARTS + slot + s, mask=real, other=0.0) - tl.load(P + slot + s, mask=real, other=0.0) * mean
        tl.store(DS + slot + s, ds, mask=real)
        b = rows_at(B, j, j >= 0, D, DP)
        if CORE == 0:
            da += (ds * scale)[:, None] * b
        else:
            act, slope = hidden(a + b, linear, bent, CORE)
            da += ds[:, None] * (r * slope)
            read += ds[:, None] * act
    mask = real[:, None] & (d < D)[None, :]
    tl.store(DA + (g * n + i)[:, None] * D + d[None, :], da.to(DA.dtype.element_ty), mask=mask)
    if CORE > 0:
        tl.store(READS + (g * tl.num_programs(0) + tl.program_id(0)) * DP + d, tl.sum(read, 0))


@launched
@triton.jit(do_not_specialize=CHANGING)
def key_kernel(
    A,
    B,
    R,
    DOUT,
    W,
    DS,
    ORDER,
    START,
    DB,
    DV_,
    SUMS,
    n,
    m,
    k,
    group,
    scale,
    linear,
    bent,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    DV: tl.constexpr,
    DVP: tl.constexpr,
    BE: tl.constexpr,
):
    """One key: ORDER (g / group, group n k) lists slots by key, START (g / group, m + 1) where each key's begin."""
    j, shared = tl.program_id(0), tl.program_id(1).to(tl.int64)
    entries = shared * group * n * k
    start, stop = tl.load(START + shared * (m + 1) + j), tl.load(START + shared * (m + 1) + j + 1)
    one = tl.zeros([1], tl.int32) + j
    b = rows_of(B + shared * m * D, one, m, D, DP, False).to(tl.float32)
    db, dv = tl.zeros([DP], tl.float32), tl.zeros([DVP], tl.float32)
    sums = tl.zeros([BE], tl.float32)
    d = tl.arange(0, DP)
    for first in range(start, stop, BE):
        e = first + tl.arange(0, BE)
        real = e < stop
        slot = entries + tl.load(ORDER + entries + e, mask=real, other=0)
        row = slot // k  # among all rows of all heads
        w, ds = tl.load(W + slot, mask=real, other=0.0), tl.load(DS + slot, mask=real, other=0.0)
        dv += tl.sum(w[:, None] * rows_at(DOUT, row, real, DV, DVP), 0)
        a = rows_at(A, row, real, D, DP)
        if CORE == 0:
            db += tl.sum((ds * scale)[:, None] * a, 0)
        else:
            r = rows_at(R, row // n, real, D, DP)
            _, slope = hidden(a + b, linear, bent, CORE)
            db += tl.sum(ds[:, None] * (r * slope), 0)
        sums += ds
    at = shared * m + j
    tl.store(DB + at * D + d, db.to(DB.dtype.element_ty), mask=d < D)
    dd = tl.arange(0, DVP)
    tl.store(DV_ + at * DV + dd, dv.to(DV_.dtype.element_ty), mask=dd < DV)
    tl.store(SUMS + at, tl.sum(sums, 0))
