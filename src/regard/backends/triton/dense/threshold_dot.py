"""tau of a sparse alignment of dot products, sum_j f(s_j - tau) = 1, in about two plain walks over the keys.

The first walk keeps the two or three largest scores of each slot, a row and a column of the tile: 128 or 192 numbers,
which hold nearly all of a row's support. Any part of a row bounds tau from below, so their own tau is a bound, and a
close one. The second walk sums f and f' above it, steps, and marks the tiles that hold something; further ones, for
rows that are not there yet, meet the marked tiles alone. No walk has a branch, so each reads ahead.
"""

import triton
import triton.language as tl

from ..common.range_masks import CHANGING, length_of, narrowed, partial_tile, partial_tiles, span_of, tiles_of, turn_of
from ..runtime.fast_launcher import launched
from .active_tiles import list_tiles
from .tile import block_of, row_side, tile
from .weights import slopes, stepped


@triton.jit
def _keep(s, one, two, three, SLOTS: tl.constexpr):
    """The largest, in order, of what a slot held and one more. What is no number stays in the first."""
    rest = tl.minimum(one, s)
    if SLOTS == 3:
        three = tl.maximum(three, tl.minimum(two, rest))
    return tl.maximum(one, s, propagate_nan=tl.PropagateNan.ALL), tl.maximum(two, rest), three


@triton.jit
def _folded(x, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Sums (BLOCK_M, 4) of a product (BLOCK_M, BLOCK_N), each of one thread's part of a row: no shuffles."""
    return tl.sum(tl.sum(tl.reshape(x, [BLOCK_M, BLOCK_N // 8, 4, 2]), 1), 2)


@triton.jit
def _parts(s, tau, power, ALIGN: tl.constexpr):
    """f and f' at s - tau, less the factors of `_stepped`."""
    tau = tau[:, None]
    rest = tl.maximum(s - tau, 0.0)
    if ALIGN == 3:
        slope = rest
    else:
        slope = slopes(s, tau, power, ALIGN)
    if ALIGN == 2:
        total = rest
    else:
        total = slope * rest
    return total, slope


@triton.jit
def _sums(s, tau, power, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ALIGN: tl.constexpr):
    """The same, summed over what a thread holds."""
    total, slope = _parts(s, tau, power, ALIGN)
    return _folded(total, BLOCK_M, BLOCK_N), _folded(slope, BLOCK_M, BLOCK_N)


@triton.jit
def _with_sink(total, slope, sink, tau, power, ALIGN: tl.constexpr):
    """Sums of `_parts` over rows, with one more score, sink (BLOCK_M, 1)."""
    more = _parts(sink, tau, power, ALIGN)
    return total + tl.sum(more[0], 1), slope + tl.sum(more[1], 1)


@triton.jit
def _mark(LIVE, slope, INTERPRETED: tl.constexpr):
    """A byte is set where some slope (BLOCK_M, 4) is positive.

    Each thread writes for itself: the layout of a store would take a turn through shared memory, and all would wait.
    """
    where = tl.zeros_like(slope).to(tl.int64)
    if INTERPRETED:
        tl.store(LIVE + where, tl.full(slope.shape, 1, tl.int8), mask=slope > 0)
    else:
        tl.inline_asm_elementwise(
            """{
            .reg .pred p;
            .reg .b32 one;
            setp.gt.f32 p, $2, 0f00000000;
            mov.b32 one, 1;
            @p st.global.u8 [$1], one;
            mov.b32 $0, 0;
            }""",
            "=r,l,f",
            [(LIVE + where).to(tl.int64), slope],
            tl.int32,
            False,
            1,
        )


@triton.jit
def _stepped(tau, total, slope, power, ALIGN: tl.constexpr):
    """A step by the sums of `_parts` over a row."""
    if ALIGN == 3:
        total, slope = 0.25 * total, 0.5 * slope
    elif ALIGN == 4:
        total /= power
    return stepped(tau, total, slope, power, ALIGN)


@triton.jit
def _bound(one, two, three, power, ALIGN: tl.constexpr, STEPS: tl.constexpr, SLOTS: tl.constexpr):
    """tau of the largest scores (BLOCK_M, BLOCK_N) alone, and a little less: below the row's, whatever was rounded.

    NaN where a score is: no step moves it.
    """
    largest = tl.max(one, 1)
    tau = tl.where(largest == -float("inf"), float("inf"), largest - power)
    step = 0
    far = 1
    while (step < STEPS) & (far > 0):
        total, slope = _parts(one, tau, power, ALIGN)
        more = _parts(two, tau, power, ALIGN)
        total, slope = total + more[0], slope + more[1]
        if SLOTS == 3:
            more = _parts(three, tau, power, ALIGN)
            total, slope = total + more[0], slope + more[1]
        tau, far = _stepped(tau, tl.sum(total, 1), tl.sum(slope, 1), power, ALIGN)
        step += 1
    tau = tl.where(tl.max((one != one).to(tl.int32), 1) > 0, float("nan"), tau)
    return tau - 1e-6 - 3e-7 * tl.where(tau < float("inf"), tl.abs(tau), 0.0)


@launched
@triton.jit(do_not_specialize=CHANGING)
def slots_kernel(
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
    LIST,
    COUNTS,
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
    SLOTS: tl.constexpr,
    PLAIN: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    SINK=None,
    MODIFIERS=None,
    MODIFY: tl.constexpr = None,
):
    """TAU (g, n), +inf for a row that sees nobody. LIVE (g, blocks, tiles): which tiles may hold weights; LIST and
    COUNTS: the same as `active_tiles` lists them for queries.

    SLOTS: how many scores a slot keeps, 2 or 3. PLAIN: scores are scale times a product, and scale > 0. SINK (g,): the
    logits of one more key. MODIFIERS, MODIFY: modifiers (`modifiers/chain`).
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
    partial = partial_tiles(start, inner, outer, stop, BLOCK_N)
    tiles = tl.cdiv(m, BLOCK_N)
    block = g * tl.num_programs(0) + i0 // BLOCK_M
    LIVE, LIST, COUNTS = LIVE + block * tiles, LIST + block * tiles, COUNTS + block * 2
    for some in range(0, tiles, 128):
        at = some + tl.arange(0, 128)
        tl.store(LIVE + at, tl.zeros([128], tl.int8), mask=at < tiles)
    before, after = scale, 1.0
    if PLAIN:
        before, after = 1.0, scale
    one = tl.full([BLOCK_M, BLOCK_N], -float("inf"), tl.float32)
    two, three = one, one
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
            before,
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
            0.0,
            batch,
            head,
            MODIFIERS,
            MODIFY,
        )
        one, two, three = _keep(s, one, two, three, SLOTS)
    for turn in range(partial):
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
            before,
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
            0.0,
            batch,
            head,
            MODIFIERS,
            MODIFY,
        )
        one, two, three = _keep(s, one, two, three, SLOTS)
    one, two, three = one * after, two * after, three * after
    seen, sink = tl.full([BLOCK_M], 1, tl.int32), 0.0
    if SINK is not None:  # a score more of the first slot
        seen = tl.max((one != -float("inf")).to(tl.int32), 1)
        sink = tl.load(SINK + g).to(tl.float32) + tl.zeros([BLOCK_M, 1], tl.float32)
        first_slot = tl.where(tl.arange(0, BLOCK_N)[None, :] == 0, sink, -float("inf"))
        one, two, three = _keep(first_slot, one, two, three, SLOTS)
    tau = _bound(one, two, three, power, ALIGN, STEPS, SLOTS)
    lost = tl.where(tau != tau, 1.0, 0.0)[:, None]  # rows of NaN: their tiles are all live
    tl.debug_barrier()  # LIVE is all zeros
    total, slope = tl.zeros([BLOCK_M, 4], tl.float32), tl.zeros([BLOCK_M, 4], tl.float32)
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
            0.0,
            batch,
            head,
            MODIFIERS,
            MODIFY,
        )
        more = _sums(s, tau, power, BLOCK_M, BLOCK_N, ALIGN)
        _mark(LIVE + first // BLOCK_N, more[1] + lost, INTERPRETED)
        total, slope = total + more[0], slope + more[1]
    for turn in range(partial):
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
            0.0,
            batch,
            head,
            MODIFIERS,
            MODIFY,
        )
        more = _sums(s, tau, power, BLOCK_M, BLOCK_N, ALIGN)
        _mark(LIVE + first // BLOCK_N, more[1] + lost, INTERPRETED)
        total, slope = total + more[0], slope + more[1]
    total, slope = tl.sum(total, 1), tl.sum(slope, 1)
    if SINK is not None:
        total, slope = _with_sink(total, slope, sink, tau, power, ALIGN)
    tau, far = _stepped(tau, total, slope, power, ALIGN)
    tl.debug_barrier()  # every mark is there
    whole, count = list_tiles(LIVE, 1, LIST, COUNTS, inner, outer, tiles, BLOCK_N, 128)
    tl.debug_barrier()  # and the list
    step = 1
    while (step < STEPS) & (far > 0):
        total, slope = tl.zeros([BLOCK_M], tl.float32), tl.zeros([BLOCK_M], tl.float32)
        for turn in range(whole):
            first = turn_of(turn, whole, start, inner, outer, LIST, BLOCK_N, True, True)
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
                0.0,
                batch,
                head,
                MODIFIERS,
                MODIFY,
            )
            more = _parts(s, tau, power, ALIGN)
            total, slope = total + tl.sum(more[0], 1), slope + tl.sum(more[1], 1)
        for turn in range(whole, count):
            first = turn_of(turn, whole, start, inner, outer, LIST, BLOCK_N, True, False)
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
                0.0,
                batch,
                head,
                MODIFIERS,
                MODIFY,
            )
            more = _parts(s, tau, power, ALIGN)
            total, slope = total + tl.sum(more[0], 1), slope + tl.sum(more[1], 1)
        if SINK is not None:
            total, slope = _with_sink(total, slope, sink, tau, power, ALIGN)
        tau, far = _stepped(tau, total, slope, power, ALIGN)
        step += 1
    if SINK is not None:
        tau = tl.where(seen > 0, tau, float("inf"))
    tl.store(TAU + g * n + i, tau, mask=i < n)
