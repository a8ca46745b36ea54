"""Dense attention forward: a program has a block of rows and walks over the tiles of keys that it may see.

Softmax takes one walk, with the largest score so far. The others know tau before: sigmoid from the number of keys,
sparse alignments from `threshold_dot` and `threshold_pairs`.
"""

import triton
import triton.language as tl

from ..common.key_bias import bias_of, ones_for, with_columns
from ..common.pair_scores import beside, deep, flat, pair_scores, places_in, row_of_places
from ..common.philox import or_dropped, uniform
from ..common.range_masks import (
    CHANGING,
    length_of,
    narrowed,
    partial_tile,
    partial_tiles,
    seen_by,
    span_of,
    tiles_of,
    turn_of,
    turns_of,
)
from ..common.sigmoid import small_logistic
from ..runtime.fast_launcher import launched
from .primitives import average, averaged_parts, averages, parted, product, put_averages, rows_of, times
from .tile import LN2, LOG2E, bell, block_of, opened, row_side, tile
from .weights import slopes, weights


@triton.jit
def factors(
    i,
    first,
    centre,
    narrow,
    seed,
    dropout,
    head,
    batch,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BELL: tl.constexpr,
    DROPPED: tl.constexpr,
):
    """What multiplies the weights of a tile of queries and keys: a bell over the keys, dropout."""
    known = 1.0
    if BELL:
        known = bell((first + tl.arange(0, BLOCK_N))[None, :].to(tl.float32) - centre[:, None], narrow)
    if DROPPED:
        known *= or_dropped(uniform(seed, i, first, head, batch, BLOCK_M, BLOCK_N, False), dropout)
    return known


@triton.jit
def _soften(
    top,
    sums,
    acc,
    s,
    V,
    j,
    total,
    parts,
    factor,
    scale,
    CORE: tl.constexpr,
    DV: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One more tile: sums and averages relative to the largest score so far; a factor fades what is averaged.

    Scores are scale times s: product and difference are then one instruction a pair.
    """
    DEEP: tl.constexpr = CORE > 0
    higher = tl.maximum(top, tl.max(tl.max(s, 1), 1) if DEEP else tl.max(s, 1))
    safe = tl.where(higher == -float("inf"), 0.0, higher) * scale
    rescale = tl.exp2(top * scale - safe)
    p = tl.exp2(s * scale - beside(safe, DEEP))
    sums = sums * rescale + (tl.sum(tl.sum(p, 1), 1) if DEEP else tl.sum(p, 1))
    acc = times(acc, row_of_places(rescale, BLOCK_M) if DEEP else rescale, CORE)
    if CORE > 0 and PRECISION == "bf16x6":
        p1, p2, p3 = parted(p * factor)
        p1, p2, p3 = flat(p1, BLOCK_M, BLOCK_N), flat(p2, BLOCK_M, BLOCK_N), flat(p3, BLOCK_M, BLOCK_N)
        return higher, sums, averaged_parts(acc, p1, p2, p3, V, j, total, parts, DV, DVP, WHOLE, INTERPRETED)
    else:
        v = rows_of(V, j, total, DV, DVP, WHOLE)
        p = (p * factor).to(v.dtype)
        if CORE > 0:
            p = flat(p, BLOCK_M, BLOCK_N)
        return higher, sums, acc + average(p, v, CORE, PRECISION, INTERPRETED)


@triton.jit
def _soft_tile(
    x,
    XT,
    YT,
    Y,
    V,
    R,
    mode,
    row,
    own,
    BIAS,
    KEEP,
    low,
    high,
    centre,
    top,
    sums,
    acc,
    i0,
    first,
    rows,
    columns,
    total,
    parts,
    left,
    right,
    before,
    after,
    narrow,
    seed,
    dropout,
    head,
    batch,
    ones,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    DV: tl.constexpr,
    DVP: tl.constexpr,
    T: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    BELL: tl.constexpr,
    DROPPED: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    MODIFIERS,
    MODIFY: tl.constexpr,
):
    """One more tile of a softmax. Pairs stay in patches, as they are computed, until they are weights."""
    if CORE == 0:
        y = rows_of(Y, first + tl.arange(0, BLOCK_N), total, D, DP, WHOLE)
        s = product(x, tl.trans(y), PRECISION, INTERPRETED)
        if BIASED == 2:
            s = with_columns(s, ones, BIAS, first, total, BLOCK_N, WHOLE, INTERPRETED)
        s *= before
    else:
        s = pair_scores(XT, YT, R, mode, i0, first, WIDTH, CORE, T, BLOCK_M, BLOCK_N, INTERPRETED)
    s = opened(
        s,
        row,
        own,
        BIAS,
        KEEP,
        low,
        high,
        first,
        rows,
        columns,
        total,
        left,
        right,
        CORE > 0,
        BLOCK_N,
        OWNED,
        BIASED,
        KEPT,
        SPANNED,
        WHOLE,
        batch,
        head,
        MODIFIERS,
        MODIFY,
    )
    i, j = i0 + tl.arange(0, BLOCK_M), first + tl.arange(0, BLOCK_N)
    factor = factors(i, first, centre, narrow, seed, dropout, head, batch, BLOCK_M, BLOCK_N, BELL, DROPPED)
    if CORE > 0 and (BELL or DROPPED):
        factor = deep(factor, T, BLOCK_M, BLOCK_N)
    return _soften(
        top,
        sums,
        acc,
        s,
        V,
        j,
        total,
        parts,
        factor,
        after,
        CORE,
        DV,
        DVP,
        BLOCK_M,
        BLOCK_N,
        WHOLE,
        PRECISION,
        INTERPRETED,
    )


@launched
@triton.jit(do_not_specialize=CHANGING)
def softmax_kernel(
    A,
    B,
    AT,
    BT,
    V,
    R,
    MODES,
    OWN,
    BIAS,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    SEED,
    CENTRE,
    OUT,
    TAU,
    ROWS,
    n,
    m,
    left,
    right,
    scale,
    dropout,
    narrow,
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
    DV: tl.constexpr,
    DVP: tl.constexpr,
    T: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    BELL: tl.constexpr,
    DROPPED: tl.constexpr,
    PLAIN: tl.constexpr,
    NORMED: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    SINK=None,
    MODIFIERS=None,
    MODIFY: tl.constexpr = None,
):
    """PLAIN: nothing is added to the product times its scale, which is positive. BIASED: keys are, 1 by numbers, 2 by
    columns. T: rows of a thread's patch of pairs (`flat`).

    ROWS (2, g, n): NORMED, the largest score and the reciprocal of the sum relative to it, which are the weights' to
    the last bit; else tau. All in base 2. SINK (g,): the logits of one more key, without a value. MODIFIERS, MODIFY:
    modifiers (`modifiers/chain`).
    """
    before, after = scale, 1.0
    if PLAIN:
        before, after = 1.0, scale
    if MODIFY is not None:
        after = LOG2E
    g, batch, head, i0, i = block_of(n, heads, BLOCK_M)
    seed = tl.load(SEED) if DROPPED else 0
    length = length_of(LENGTHS, batch, m, PADDED)
    shared = g // group  # the head of keys
    parts = (tl.num_programs(1) // group).to(tl.int64) * m * DV  # of V, where fp32 is in parts
    row = i
    if CORE > 0:
        row = i0 + places_in(BLOCK_M, T)
    x, mode, own = row_side(A, MODES + shared, OWN, g, row, n, CORE, D, DP, OWNED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + shared * WIDTH * stride_y, R + g * (WIDTH + 1)
    B, V, KEEP = B + shared * m * D, V + shared * m * DV, KEEP + batch * keep_b + head * keep_h
    BIAS = bias_of(BIAS, g, shared, m, BIASED)
    ones = ones_for(BIAS, m, BLOCK_M, BIASED)
    sums = row.to(tl.float32) * 0.0
    top = sums - float("inf")
    centre = tl.zeros([BLOCK_M], tl.float32)
    if BELL:
        centre = tl.load(CENTRE + g * n + i, mask=i < n, other=0.0)
    acc = averages(CORE, BLOCK_M, DVP)
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BLOCK_M, BLOCK_N, KEPT)
    low, high = span_of(LOW + g * n, HIGH + g * n, i, n, SPANNED)
    start, inner, outer, stop = narrowed(start, inner, outer, stop, low, high, i < n, length, BLOCK_N, SPANNED)
    low, high = span_of(LOW + g * n, HIGH + g * n, row, n, SPANNED)
    for first in range(inner, outer, BLOCK_N):
        top, sums, acc = _soft_tile(
            x,
            AT,
            BT,
            B,
            V,
            R,
            mode,
            row,
            own,
            BIAS,
            KEEP,
            low,
            high,
            centre,
            top,
            sums,
            acc,
            i0,
            first,
            n,
            length,
            m,
            parts,
            left,
            right,
            before,
            after,
            narrow,
            seed,
            dropout,
            head,
            batch,
            ones,
            CORE,
            D,
            DP,
            WIDTH,
            DV,
            DVP,
            T,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            KEPT,
            SPANNED,
            BELL,
            DROPPED,
            True,
            PRECISION,
            INTERPRETED,
            MODIFIERS,
            MODIFY,
        )
    for turn in range(partial_tiles(start, inner, outer, stop, BLOCK_N)):
        first = partial_tile(turn, start, inner, outer, BLOCK_N)
        top, sums, acc = _soft_tile(
            x,
            AT,
            BT,
            B,
            V,
            R,
            mode,
            row,
            own,
            BIAS,
            KEEP,
            low,
            high,
            centre,
            top,
            sums,
            acc,
            i0,
            first,
            n,
            length,
            m,
            parts,
            left,
            right,
            before,
            after,
            narrow,
            seed,
            dropout,
            head,
            batch,
            ones,
            CORE,
            D,
            DP,
            WIDTH,
            DV,
            DVP,
            T,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            KEPT,
            SPANNED,
            BELL,
            DROPPED,
            False,
            PRECISION,
            INTERPRETED,
            MODIFIERS,
            MODIFY,
        )
    if CORE > 0:
        top, sums = row_of_places(top, BLOCK_M), row_of_places(sums, BLOCK_M)
    full = (sums > 0) | (sums != sums)  # NaN: a row that sees what is no number
    sums, top = tl.where(full, sums, 1.0), tl.where(full, top * after, float("inf"))
    if SINK is not None:
        top, sums, acc = _beside_sink(top, sums, acc, full, tl.load(SINK + g).to(tl.float32) * LOG2E, CORE)
    put_averages(OUT + g * n * DV, i, n, times(acc, 1.0 / sums, CORE), DV, DVP, CORE)
    tau = top + tl.log2(sums)
    tl.store(TAU + g * n + i, tau * LN2, mask=i < n)
    tl.store(ROWS + g * n + i, top if NORMED else tau, mask=i < n)
    if NORMED:
        tl.store(ROWS + (tl.num_programs(1) + g) * n + i, 1.0 / sums, mask=i < n)


@triton.jit
def _beside_sink(top, sums, acc, full, sink, CORE: tl.constexpr):
    """Sums and averages of rows with one more key of that logit and no value; rows that see nobody stay empty."""
    own = tl.where(full, top, 0.0)
    higher = tl.maximum(own, sink, propagate_nan=tl.PropagateNan.ALL)
    fade = tl.exp2(own - higher)
    sums = tl.where(full, sums * fade + tl.exp2(sink - higher), sums)
    return tl.where(full, higher, top), sums, times(acc, fade, CORE)


@triton.jit
def _add(
    acc,
    mean,
    slope,
    s,
    tau,
    power,
    factor,
    V,
    first,
    m,
    CORE: tl.constexpr,
    DV: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ALIGN: tl.constexpr,
    SMALL: tl.constexpr,
    TRAINS: tl.constexpr,
    WHOLE: tl.constexpr,
    OPEN: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One more tile with known tau. OPEN: no score is -inf."""
    v = rows_of(V, first + tl.arange(0, BLOCK_N), m, DV, DVP, WHOLE)
    if SMALL > 0:
        acc += average(small_logistic(s - tau, SMALL, INTERPRETED), v, CORE, PRECISION, INTERPRETED)
    else:
        w = weights(s, tau, power, ALIGN, INTERPRETED, OPEN, PRECISION == "ieee")
        acc += average(w * factor, v, CORE, PRECISION, INTERPRETED)
    if TRAINS:
        u = slopes(s, tau, power, ALIGN)
        slope += tl.sum(u, 1)
        mean += average(u * factor, v, CORE, PRECISION, INTERPRETED)
    return acc, mean, slope


@launched
@triton.jit(do_not_specialize=CHANGING)
def known_kernel(
    A,
    B,
    AT,
    BT,
    V,
    R,
    MODES,
    OWN,
    BIAS,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    SEED,
    OUT,
    TAU,
    LIST,
    COUNTS,
    MEAN,
    n,
    m,
    left,
    right,
    scale,
    dropout,
    offset,
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
    DV: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    ALIGN: tl.constexpr,
    COUNTED: tl.constexpr,
    SMALL: tl.constexpr,
    TRAINS: tl.constexpr,
    DROPPED: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    SINK=None,
    MODIFIERS=None,
    MODIFY: tl.constexpr = None,
    CLOSING: tl.constexpr = False,
):
    """out = sum_j f(s - tau) v_j. A sigmoid's tau is the logarithm of how many keys a row sees (COUNTED), or `offset`;
    that of sparse alignments is known, and the tiles that hold weights are listed. SMALL: most of a sigmoid's weights
    are, and a thread has so many pairs of a tile; 0 where that is not known.

    MEAN (g, n, DV), where a sparse alignment TRAINS: sum_j f'(s - tau) v_j over the sum of f', which the gradient of a
    row takes out. SINK (g,): the logits of one more key, without a value. MODIFIERS, MODIFY: modifiers
    (`modifiers/chain`); CLOSING: they may close pairs, by -inf.
    """
    g, batch, head, i0, i = block_of(n, heads, BLOCK_M)
    seed = tl.load(SEED) if DROPPED else 0
    length = length_of(LENGTHS, batch, m, PADDED)
    shared = g // group  # the head of keys
    x, mode, own = row_side(A, MODES + shared, OWN, g, i, n, CORE, D, DP, OWNED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + shared * WIDTH * stride_y, R + g * (WIDTH + 1)
    B, V, BIAS, KEEP = B + shared * m * D, V + shared * m * DV, BIAS + g * m, KEEP + batch * keep_b + head * keep_h
    block = g * tl.num_programs(0) + i0 // BLOCK_M
    LIST, COUNTS = LIST + block * tl.cdiv(m, BLOCK_N), COUNTS + block * 2
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BLOCK_M, BLOCK_N, KEPT)
    low, high = span_of(LOW + g * n, HIGH + g * n, i, n, SPANNED)
    start, inner, outer, stop = narrowed(start, inner, outer, stop, low, high, i < n, length, BLOCK_N, SPANNED)
    if ALIGN == 1:
        seen = seen_by(i, length, left, right, low, high, KEEP, start, stop, BLOCK_M, BLOCK_N, KEPT, SPANNED)
        if CLOSING:
            seen = tl.zeros([BLOCK_M], tl.int32)
            for first in range(start, stop, BLOCK_N):
                s = opened(
                    tl.zeros([BLOCK_M, BLOCK_N], tl.float32),
                    i,
                    own,
                    BIAS,
                    KEEP,
                    low,
                    high,
                    first,
                    n,
                    length,
                    m,
                    left,
                    right,
                    False,
                    BLOCK_N,
                    False,
                    0,
                    KEPT,
                    SPANNED,
                    False,
                    batch,
                    head,
                    MODIFIERS,
                    MODIFY,
                )
                seen += tl.sum((s != -float("inf")).to(tl.int32), 1)
        count = seen if SINK is None else seen + 1
        tau = tl.log(tl.maximum(count, 1).to(tl.float32)) if COUNTED else tl.zeros([BLOCK_M], tl.float32) + offset
        tau = tl.where(seen > 0, tau, float("inf"))
        tl.store(TAU + g * n + i, tau, mask=i < n)
        tau = tau[:, None] * LOG2E
    else:
        tau = tl.load(TAU + g * n + i, mask=i < n, other=float("inf"))
        known = tl.where(tau != tau, float("nan"), 1.0)  # a row that sees NaN is NaN
        tau = tau[:, None]
    acc, mean, slope = averages(CORE, BLOCK_M, DVP), averages(CORE, BLOCK_M, DVP), tl.zeros([BLOCK_M], tl.float32)
    whole, total = turns_of(start, inner, outer, stop, COUNTS, BLOCK_N, ALIGN > 1)
    for turn in range(whole):
        first = turn_of(turn, whole, start, inner, outer, LIST, BLOCK_N, ALIGN > 1, True)
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
            ALIGN == 1,
        )
        factor = factors(i, first, tau, 0.0, seed, dropout, head, batch, BLOCK_M, BLOCK_N, False, DROPPED)
        acc, mean, slope = _add(
            acc,
            mean,
            slope,
            s,
            tau,
            power,
            factor,
            V,
            first,
            m,
            CORE,
            DV,
            DVP,
            BLOCK_N,
            ALIGN,
            SMALL,
            TRAINS,
            True,
            MODIFY is None,
            PRECISION,
            INTERPRETED,
        )
    for turn in range(whole, total):
        first = turn_of(turn, whole, start, inner, outer, LIST, BLOCK_N, ALIGN > 1, False)
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
            ALIGN == 1,
        )
        factor = factors(i, first, tau, 0.0, seed, dropout, head, batch, BLOCK_M, BLOCK_N, False, DROPPED)
        acc, mean, slope = _add(
            acc,
            mean,
            slope,
            s,
            tau,
            power,
            factor,
            V,
            first,
            m,
            CORE,
            DV,
            DVP,
            BLOCK_N,
            ALIGN,
            SMALL,
            TRAINS,
            False,
            False,
            PRECISION,
            INTERPRETED,
        )
    if ALIGN > 1:
        acc = times(acc, known, CORE)
    put_averages(OUT + g * n * DV, i, n, acc, DV, DVP, CORE)
    if TRAINS:
        if SINK is not None:
            sink = tl.load(SINK + g).to(tl.float32) + tl.zeros([BLOCK_M, 1], tl.float32)
            slope += tl.sum(slopes(sink, tau, power, ALIGN), 1)
        mean = times(mean, known / tl.where(slope > 0, slope, 1.0), CORE)
        put_averages(MEAN + g * n * DV, i, n, mean, DV, DVP, CORE)
