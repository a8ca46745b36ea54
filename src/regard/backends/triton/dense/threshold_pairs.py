"""tau of a sparse alignment, sum_j f(s_j - tau) = 1: one walk gathers the scores that may count, and solves for them.

For scores that cost much to make; dot products have `threshold_dot`.
The sum falls and is convex in tau, so any part of a row bounds tau from below, and a score under a bound never counts.
A row's buffer holds the scores above its bound; when it would overflow, the buffer's own tau is a better bound. At the
end the buffer holds the whole support, and its tau is the row's. Rows whose support is larger than a buffer are solved
by walking over all keys for each step instead.
"""

import triton
import triton.language as tl

from ..common.range_masks import CHANGING, length_of, narrowed, partial_tile, partial_tiles, span_of, tiles_of
from ..runtime.fast_launcher import launched
from .row_topk import put_above
from .tile import block_of, row_side, tile
from .weights import moments, slopes, stepped, weights


@triton.jit
def _bound(s, tau, power, ALIGN: tl.constexpr):
    """A larger lower bound of tau, if this tile gives one; -inf while no key was seen."""
    tau = tl.maximum(tau, tl.max(s, 1) - power)
    safe = tl.where(tau == -float("inf"), float("inf"), tau)[:, None]
    total, slope = tl.sum(weights(s, safe, power, ALIGN, True), 1), tl.sum(slopes(s, safe, power, ALIGN), 1)
    return tl.where(total > 1.0, tau + (total - 1.0) / tl.where(slope > 0, slope, 1.0), tau)


@triton.jit
def _pack(
    VALUES,
    COUNTS,
    BOUNDS,
    row,
    tau,
    count,
    power,
    BLOCK_M: tl.constexpr,
    BUFFER: tl.constexpr,
    FEW: tl.constexpr,
    ALIGN: tl.constexpr,
    STEPS: tl.constexpr,
):
    """The tau of each buffer, and what lies above it to the buffer's front. FEW rows at once."""
    i = tl.arange(0, BLOCK_M)
    tl.store(COUNTS + row + i, count)
    tl.store(BOUNDS + row + i, tau)
    tl.debug_barrier()
    column = tl.arange(0, BUFFER)[None, :]
    for start in range(0, BLOCK_M, FEW):
        some = (row + start + tl.arange(0, FEW)).to(tl.int64)
        full = tl.load(COUNTS + some)
        at = some[:, None] * BUFFER
        value = tl.load(VALUES + at + column, mask=column < full[:, None], other=-float("inf"))
        low = tl.where(full > 0, tl.load(BOUNDS + some), float("inf"))
        step = 0
        far = 1
        while (step < STEPS) & (far > 0):
            total, slope = moments(value, low[:, None], power, ALIGN)
            low, far = stepped(low, total, slope, power, ALIGN)
            step += 1
        stays = (value > low[:, None]).to(tl.int32)
        tl.debug_barrier()  # all of the buffer has been read
        tl.store(VALUES + at + tl.cumsum(stays, 1) - 1, value, mask=stays > 0)
        tl.store(COUNTS + some, tl.sum(stays, 1))
        tl.store(BOUNDS + some, tl.where(full > 0, low, -float("inf")))
    tl.debug_barrier()
    return tl.load(BOUNDS + row + i), tl.load(COUNTS + row + i)


@triton.jit
def _gather(
    s,
    VALUES,
    COUNTS,
    BOUNDS,
    row,
    tau,
    count,
    wide,
    power,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BUFFER: tl.constexpr,
    FEW: tl.constexpr,
    ALIGN: tl.constexpr,
    STEPS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One more tile, and whether it may hold a weight. wide: some support was larger than its buffer."""
    live = 1
    if wide > 0:
        tau = _bound(s, tau, power, ALIGN)
    else:
        tau = tl.maximum(tau, tl.max(s, 1) - power)
        more = tl.sum((s > tau[:, None]).to(tl.int32), 1)
        live = (tl.max(more, 0) > 0).to(tl.int32)
        if live > 0:
            if tl.max(count + more, 0) > BUFFER:
                tau, count = _pack(VALUES, COUNTS, BOUNDS, row, tau, count, power, BLOCK_M, BUFFER, FEW, ALIGN, STEPS)
                more = tl.sum((s > tau[:, None]).to(tl.int32), 1)
            if tl.max(count + more, 0) > BUFFER:
                wide += 1
            else:
                count = put_above(
                    VALUES, VALUES, row, s, s > tau[:, None], count, 0, BLOCK_M, BLOCK_N, BUFFER, False, INTERPRETED
                )
    return tau, count, wide, live


@launched
@triton.jit(do_not_specialize=CHANGING)
def threshold_kernel(
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
    TAU,
    LIVE,
    VALUES,
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
    power,
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
    ALIGN: tl.constexpr,
    STEPS: tl.constexpr,
    BUFFER: tl.constexpr,
    FEW: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """TAU (g, n), +inf for a row that sees nobody. LIVE: which tiles may hold weights, by what was known when they were
    met; near keys, which often hold the largest scores, come first.

    VALUES (g, rows, BUFFER), COUNTS and BOUNDS are scratch memory.
    """
    g, batch, head, i0, i = block_of(n, heads, BLOCK_M)
    length = length_of(LENGTHS, batch, m, PADDED)
    shared = g // group  # the head of keys
    x, mode, own = row_side(A, MODES + shared, OWN, g, i, n, CORE, D, DP, OWNED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + shared * WIDTH * stride_y, R + g * (WIDTH + 1)
    B, BIAS, KEEP = B + shared * m * D, BIAS + g * m, KEEP + batch * keep_b + head * keep_h
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BLOCK_M, BLOCK_N, KEPT)
    low, high = span_of(LOW + g * n, HIGH + g * n, i, n, SPANNED)
    start, inner, outer, stop = narrowed(start, inner, outer, stop, low, high, i < n, length, BLOCK_N, SPANNED)
    tiles = tl.cdiv(m, BLOCK_N)
    LIVE += (g * tl.num_programs(0) + i0 // BLOCK_M) * tiles
    for some in range(0, tiles, 128):
        at = some + tl.arange(0, 128)
        tl.store(LIVE + at, tl.zeros([128], tl.int8), mask=at < tiles)
    tl.debug_barrier()
    row = g * tl.num_programs(0) * BLOCK_M + i0
    tau, count = tl.full([BLOCK_M], -float("inf"), tl.float32), tl.zeros([BLOCK_M], tl.int32)
    wide, lost = 0, tl.zeros([BLOCK_M], tl.int32)  # lost: rows that see what is no number
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
        lost = tl.maximum(lost, tl.max((s != s).to(tl.int32), 1))
        tau, count, wide, live = _gather(
            s,
            VALUES,
            COUNTS,
            BOUNDS,
            row,
            tau,
            count,
            wide,
            power,
            BLOCK_M,
            BLOCK_N,
            BUFFER,
            FEW,
            ALIGN,
            STEPS,
            INTERPRETED,
        )
        tl.store(LIVE + first // BLOCK_N, live.to(tl.int8))
    for back in range(inner, outer, BLOCK_N):
        first = outer - BLOCK_N - (back - inner)
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
        lost = tl.maximum(lost, tl.max((s != s).to(tl.int32), 1))
        tau, count, wide, live = _gather(
            s,
            VALUES,
            COUNTS,
            BOUNDS,
            row,
            tau,
            count,
            wide,
            power,
            BLOCK_M,
            BLOCK_N,
            BUFFER,
            FEW,
            ALIGN,
            STEPS,
            INTERPRETED,
        )
        tl.store(LIVE + first // BLOCK_N, live.to(tl.int8))
    if wide == 0:
        tau, count = _pack(VALUES, COUNTS, BOUNDS, row, tau, count, power, BLOCK_M, BUFFER, FEW, ALIGN, STEPS)
    tau = tl.where(tau == -float("inf"), float("inf"), tau)
    step = 0
    far = tl.where(wide > 0, 1, 0)
    while (step < STEPS) & (far > 0):
        total, slope = tl.zeros([BLOCK_M], tl.float32), tl.zeros([BLOCK_M], tl.float32)
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
            more = moments(s, tau[:, None], power, ALIGN)
            total, slope = total + more[0], slope + more[1]
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
            more = moments(s, tau[:, None], power, ALIGN)
            total, slope = total + more[0], slope + more[1]
        tau, far = stepped(tau, total, slope, power, ALIGN)
        step += 1
    tau = tl.where(lost > 0, float("nan"), tau)
    if tl.max(lost, 0) > 0:
        tl.debug_barrier()  # every mark is there
        for some in range(0, tiles, 128):
            at = some + tl.arange(0, 128)
            tl.store(LIVE + at, tl.full([128], 1, tl.int8), mask=at < tiles)
    tl.store(TAU + g * n + i, tau, mask=i < n)
