"""Dense attention backward: one kernel that runs twice, once for blocks of queries and once for blocks of keys.

A score is the same seen from either side, so the kernel has an own side X and another side Y. It computes the tile
again, the gradient of its scores, and adds to its own vectors what they receive; nothing is added by two programs, so
the result is the same each time. KEYS says that the own side is that of the keys: their values receive theirs too.
Pairs take one walk where memory allows it: the slope of a pair is most of the work, and the same for both (BOTH).
Where several heads of queries share keys, a program of keys walks over those heads one after the other.
"""

import triton
import triton.language as tl

from ..common.key_bias import bias_of, ones_for
from ..common.pair_scores import HELD, add_others, pull_pairs, through
from ..common.philox import or_dropped, uniform
from ..common.range_masks import CHANGING, length_of, narrowed, span_of, tiles_of, turn_of, turns_of, within
from ..runtime.fast_launcher import launched
from .primitives import (
    average,
    averaged_parts,
    averages,
    numbers_of,
    parted,
    product,
    product_of_parts,
    pulls,
    put_averages,
    put_pulls,
    received,
    rows_of,
)
from .tile import LN2, LOG2E, bell, tile, tile_with_slope
from .weights import pulled, weights


@triton.jit
def _tile_pull(
    x,
    XT,
    YT,
    Y,
    YL,
    R,
    mode,
    own,
    kept,
    BIAS,
    KEEP,
    low,
    high,
    CENTRE,
    XL,
    xo,
    YO,
    own_parts,
    other_parts,
    tau,
    delta,
    norm,
    TAU,
    DELTA,
    NORM,
    DS,
    OTHERS,
    TOTALS,
    dx,
    read,
    dv,
    sums,
    moved,
    i0,
    first,
    rows,
    columns,
    other_total,
    before,
    after,
    scale,
    narrow,
    seed,
    dropout,
    head,
    batch,
    ones,
    stride_x,
    stride_y,
    n,
    m,
    power,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    DVW: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    BELL: tl.constexpr,
    DROPPED: tl.constexpr,
    NORMED: tl.constexpr,
    SUMMED: tl.constexpr,
    CHOSEN: tl.constexpr,
    ALIGN: tl.constexpr,
    KEYS: tl.constexpr,
    READ: tl.constexpr,
    BOTH: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    MODIFIERS,
    MODIFY: tl.constexpr,
    SLOPES: tl.constexpr,
):
    """What one tile adds to the own side: vectors, readout, values, sums of ds."""
    i, j = i0 + tl.arange(0, BLOCK_M), first + tl.arange(0, BLOCK_N)
    if MODIFY is None:
        s = tile(
            x,
            XT,
            YT,
            Y,
            R,
            mode,
            own,
            BIAS,
            KEEP,
            low,
            high,
            i0,
            first,
            rows,
            columns,
            other_total,
            before,
            after,
            scale,
            stride_x,
            stride_y,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED or (KEPT and KEYS),
            BIASED,
            KEPT and not KEYS,
            SPANNED,
            WHOLE,
            PRECISION,
            INTERPRETED,
            ones,
        )
    else:
        s, slope = tile_with_slope(
            x,
            XT,
            YT,
            Y,
            R,
            mode,
            own,
            BIAS,
            KEEP,
            low,
            high,
            i0,
            first,
            rows,
            columns,
            other_total,
            before,
            after,
            scale,
            batch,
            head,
            MODIFIERS,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            KEPT and not KEYS,
            SPANNED,
            WHOLE,
            PRECISION,
            INTERPRETED,
            ones,
            MODIFY,
            SLOPES,
            0,
            ALIGN <= 1,
            KEYS,
        )
        if KEPT and KEYS:
            s = tl.where(kept[:, None], s, -float("inf"))
    if KEYS:
        t, mean = row_of(TAU, DELTA, j, n, ALIGN, CHOSEN, WHOLE)
        t, mean = t[None, :], mean[None, :]
    else:
        t, mean = tau[:, None], delta[:, None]
    w = weights(s, t, power, ALIGN, INTERPRETED, WHOLE and MODIFY is None)
    if CORE > 0 and PRECISION == "bf16x6":
        dw = tl.trans(
            product_of_parts(
                xo, i, m if KEYS else n, own_parts, YO, j, other_total, other_parts, DVW, DVP, WHOLE, INTERPRETED
            )
        )
    else:
        yo = rows_of(YO, j, other_total, DVW, DVP, WHOLE)
        dw = product(xo, tl.trans(yo), PRECISION, INTERPRETED)
    if CORE > 0:
        tl.debug_barrier()  # the tile before has been read
        dw = through(DS, dw, BLOCK_M, BLOCK_N)
    if NORMED:
        w *= numbers_of(NORM, j, n, 1.0, WHOLE)[None, :] if KEYS else norm[:, None]
    if CHOSEN:  # no values: dw is the entropy's gradient, and so is the pull of -log p
        dw *= tl.where(s > -float("inf"), (t - s) * LN2, 0.0)
    factor = 1.0
    if DROPPED:
        if KEYS:
            factor = or_dropped(uniform(seed, j, i0, head, batch, BLOCK_M, BLOCK_N, True), dropout)
        else:
            factor = or_dropped(uniform(seed, i, first, head, batch, BLOCK_M, BLOCK_N, False), dropout)
    if BELL:
        if KEYS:
            away = i[:, None].to(tl.float32) - tl.load(CENTRE + j, mask=j < n, other=0.0)[None, :]
        else:
            away = j[None, :].to(tl.float32) - tl.load(CENTRE + i, mask=i < n, other=0.0)[:, None]
        factor *= bell(away, narrow)
    dw *= factor
    if BELL:
        moved += tl.sum(w * dw * away, 1)
    ds = pulled(s, t, w, dw, mean, power, ALIGN)
    if MODIFY is not None:
        ds *= slope
    if SUMMED:
        sums += tl.sum(ds, 1)
    if KEYS:
        if CORE > 0 and PRECISION == "bf16x6":
            p1, p2, p3 = parted(w * factor)
            dv = averaged_parts(dv, p1, p2, p3, YO, j, other_total, other_parts, DVW, DVP, WHOLE, INTERPRETED)
        else:
            dv += average(w * factor, yo, CORE, PRECISION, INTERPRETED)
    if CORE == 0:
        y = rows_of(Y, j, other_total, D, DP, WHOLE)
        dx += product(ds.to(y.dtype), y, PRECISION, INTERPRETED)
    else:
        dx, read = pull_pairs(
            ds, DS, XL, YL, OTHERS, mode, i0, first, dx, read, CORE, DP, BLOCK_M, BLOCK_N, READ, BOTH, INTERPRETED
        )
        if BOTH:
            add_others(OTHERS, TOTALS + first * DP, BLOCK_M, BLOCK_N, DP)
    return dx, read, dv, sums, moved


@triton.jit
def row_of(TAU, DELTA, i, n, ALIGN: tl.constexpr, CHOSEN: tl.constexpr, WHOLE: tl.constexpr):
    """tau of rows, and the mean of dw that they take out."""
    tau = numbers_of(TAU, i, n, float("inf"), WHOLE)
    delta = tau
    if ALIGN != 1:  # a sigmoid's keys are judged by themselves
        delta = numbers_of(DELTA, i, n, 0.0, WHOLE)
    if ALIGN == 1 or CHOSEN:  # a softmax's was kept in base 2
        tau *= LOG2E
    return tau, delta


@triton.jit
def _pull_head(
    g,
    x,
    XL,
    xo,
    mode,
    dx,
    dv,
    Y,
    XT,
    YT,
    YL,
    R,
    OWN,
    BIAS,
    YO,
    TAU,
    DELTA,
    NORM,
    MEAN,
    LIST,
    COUNTS,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    CENTRE,
    DS,
    OTHERS,
    TOTALS,
    SUMS,
    READS,
    MOVED,
    i0,
    n,
    m,
    part,
    reach,
    left,
    right,
    scale,
    narrow,
    seed,
    dropout,
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
    DVW: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    BELL: tl.constexpr,
    DROPPED: tl.constexpr,
    NORMED: tl.constexpr,
    SUMMED: tl.constexpr,
    CHOSEN: tl.constexpr,
    ALIGN: tl.constexpr,
    KEYS: tl.constexpr,
    READ: tl.constexpr,
    BOTH: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    MODIFIERS,
    MODIFY: tl.constexpr,
    SLOPES: tl.constexpr,
):
    """What a block receives of the g-th head of queries: vectors, readout, values, and the sums of ds."""
    batch, head = g // heads, g % heads
    length = length_of(LENGTHS, batch, m, PADDED)
    if KEYS:
        rows, columns, own_total, other_total, other = length, n, m, n, g
        before, after = right, left
    else:
        rows, columns, own_total, other_total, other = n, length, n, m, g // group
        before, after = left, right
    i = i0 + tl.arange(0, BLOCK_M)
    real = i < own_total
    heads_own = tl.num_programs(1).to(tl.int64)
    own_parts = heads_own * own_total * DVW  # from one part of XO to the next, and of YO
    other_parts = (heads_own * group if KEYS else heads_own // group) * other_total * DVW
    YT, YL, R = YT + other * WIDTH * stride_y, YL + other * stride_y * DP, R + g * (WIDTH + 1)
    Y, YO = Y + other * other_total * D, YO + other * other_total * DVW
    BIAS = bias_of(BIAS, g, other, other_total, BIASED)
    ones = ones_for(BIAS, other_total, BLOCK_M, BIASED)
    KEEP += batch * keep_b + head * keep_h
    TAU, DELTA, NORM, CENTRE = TAU + g * n, DELTA + g * n, NORM + g * n, CENTRE + g * n
    block = g * tl.cdiv(own_total, BLOCK_M) + i0 // BLOCK_M
    TOTALS += (((tl.program_id(0) * heads_own * group + g) - part) * reach if BOTH else 0) * DP
    LIST, COUNTS = LIST + block * tl.cdiv(other_total, BLOCK_N), COUNTS + block * 2
    own = tl.zeros([BLOCK_M], tl.float32)
    if OWNED:
        own = tl.load(OWN + g * own_total + i, mask=real, other=0.0)
    kept = real
    if KEPT and KEYS:
        kept = tl.load(KEEP + i, mask=real, other=0) > 0
        if MODIFY is None:  # else a modifier might open what is closed before it
            own = tl.where(kept, own, -float("inf"))
    tau, delta = tl.zeros([BLOCK_M], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    if not KEYS:
        if ALIGN != 1 and not CHOSEN:  # the mean of dw that a row takes out, for the side of the keys too
            mean, pull = rows_of(MEAN + g * n * DVW, i, n, DVW, DVP, False), xo
            if CORE > 0 and PRECISION == "bf16x6":
                pull = rows_of(xo + 2 * own_parts, i, n, DVW, DVP, False).to(tl.float32)
                pull += rows_of(xo + own_parts, i, n, DVW, DVP, False)
                pull += rows_of(xo, i, n, DVW, DVP, False)
            tl.store(DELTA + i, tl.sum(pull.to(tl.float32) * mean.to(tl.float32), 1), mask=real)
            tl.debug_barrier()
        tau, delta = row_of(TAU, DELTA, i, n, ALIGN, CHOSEN, False)
    norm = delta
    if NORMED and not KEYS:
        norm = tl.load(NORM + i, mask=real, other=1.0)
    start, inner, outer, stop = tiles_of(i0, rows, columns, before, after, BLOCK_M, BLOCK_N, KEPT)
    low, high = span_of(LOW + g * own_total, HIGH + g * own_total, i, own_total, SPANNED)
    start, inner, outer, stop = narrowed(start, inner, outer, stop, low, high, real, columns, BLOCK_N, SPANNED)
    if BOTH:
        start, inner, outer, stop = within(start, inner, outer, stop, part * reach, (part + 1) * reach, BLOCK_N)
    sums, moved, read = (
        tl.zeros([BLOCK_M], tl.float32),
        tl.zeros([BLOCK_M], tl.float32),
        tl.zeros([DP, BLOCK_M // HELD], tl.float32),
    )
    whole, total = turns_of(start, inner, outer, stop, COUNTS, BLOCK_N, ALIGN > 1)
    for turn in range(whole):
        first = turn_of(turn, whole, start, inner, outer, LIST, BLOCK_N, ALIGN > 1, True)
        dx, read, dv, sums, moved = _tile_pull(
            x,
            XT,
            YT,
            Y,
            YL,
            R,
            mode,
            own,
            kept,
            BIAS,
            KEEP,
            low,
            high,
            CENTRE,
            XL,
            xo,
            YO,
            own_parts,
            other_parts,
            tau,
            delta,
            norm,
            TAU,
            DELTA,
            NORM,
            DS,
            OTHERS,
            TOTALS,
            dx,
            read,
            dv,
            sums,
            moved,
            i0,
            first,
            rows,
            columns,
            other_total,
            before,
            after,
            scale,
            narrow,
            seed,
            dropout,
            head,
            batch,
            ones,
            stride_x,
            stride_y,
            n,
            m,
            power,
            CORE,
            D,
            DP,
            WIDTH,
            DVW,
            DVP,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            KEPT,
            SPANNED,
            BELL,
            DROPPED,
            NORMED,
            SUMMED,
            CHOSEN,
            ALIGN,
            KEYS,
            READ,
            BOTH,
            True,
            PRECISION,
            INTERPRETED,
            MODIFIERS,
            MODIFY,
            SLOPES,
        )
    for turn in range(whole, total):
        first = turn_of(turn, whole, start, inner, outer, LIST, BLOCK_N, ALIGN > 1, False)
        dx, read, dv, sums, moved = _tile_pull(
            x,
            XT,
            YT,
            Y,
            YL,
            R,
            mode,
            own,
            kept,
            BIAS,
            KEEP,
            low,
            high,
            CENTRE,
            XL,
            xo,
            YO,
            own_parts,
            other_parts,
            tau,
            delta,
            norm,
            TAU,
            DELTA,
            NORM,
            DS,
            OTHERS,
            TOTALS,
            dx,
            read,
            dv,
            sums,
            moved,
            i0,
            first,
            rows,
            columns,
            other_total,
            before,
            after,
            scale,
            narrow,
            seed,
            dropout,
            head,
            batch,
            ones,
            stride_x,
            stride_y,
            n,
            m,
            power,
            CORE,
            D,
            DP,
            WIDTH,
            DVW,
            DVP,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            KEPT,
            SPANNED,
            BELL,
            DROPPED,
            NORMED,
            SUMMED,
            CHOSEN,
            ALIGN,
            KEYS,
            READ,
            BOTH,
            False,
            PRECISION,
            INTERPRETED,
            MODIFIERS,
            MODIFY,
            SLOPES,
        )
    if SUMMED:
        tl.store(SUMS + (part * heads_own * group + g) * own_total + i, sums, mask=real)
    if BELL and not KEYS:
        tl.store(MOVED + g * n + i, moved, mask=real)
    if READ:
        block += part * heads_own * group * tl.cdiv(own_total, BLOCK_M)
        tl.store(READS + block * DP + tl.arange(0, DP), tl.sum(read, 1))
    return dx, dv, sums


@launched
@triton.jit(do_not_specialize=CHANGING)
def pull_kernel(
    X,
    Y,
    XT,
    YT,
    XL,
    YL,
    R,
    READOUT,
    MODES,
    OWN,
    BIAS,
    XO,
    YO,
    TAU,
    DELTA,
    NORM,
    MEAN,
    LIST,
    COUNTS,
    LENGTHS,
    KEEP,
    LOW,
    HIGH,
    SEED,
    CENTRE,
    DS,
    OTHERS,
    TOTALS,
    DX,
    DV,
    SUMS,
    READS,
    MOVED,
    first,
    n,
    m,
    parts,
    reach,
    left,
    right,
    scale,
    narrow,
    dropout,
    bend,
    linear,
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
    DVW: tl.constexpr,
    DVP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    BELL: tl.constexpr,
    DROPPED: tl.constexpr,
    NORMED: tl.constexpr,
    SUMMED: tl.constexpr,
    CHOSEN: tl.constexpr,
    ALIGN: tl.constexpr,
    KEYS: tl.constexpr,
    READ: tl.constexpr,
    BOTH: tl.constexpr,
    GROUPED: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    MODIFIERS=None,
    MODIFY: tl.constexpr = None,
    SLOPES: tl.constexpr = None,
):
    """XO and YO are the gradients of the outputs on the queries' side and the values on the keys' side. MEAN is the
    output, or what stands for it in a sparse alignment: its product with XO is DELTA, which the queries' side writes.

    DX (places, D): the gradient of X. SUMS: ds over the other side, for each head of queries. Own blocks
    before the first belong to other launches.

    BOTH, of pairs: the other side receives as well, since the slope of a pair is the same for both. TOTALS (programs of
    a head, heads of queries, reach, DP) += what it receives; a program adds to its own, so nobody waits and the result
    is the same each time. It walks over one of `parts` of the other side, `reach` places long; what its own side
    receives of each part lies behind that of the part before. MODIFIERS, MODIFY, SLOPES: modifiers (`modifiers/chain`).
    """
    at = tl.program_id(1).to(tl.int64)  # a head of the own side
    seed = tl.load(SEED) if DROPPED else 0
    own_total = m if KEYS else n
    part, turn, turns = 0, tl.program_id(0), tl.num_programs(0)
    if BOTH:
        part, turn, turns = turn % parts, turn // parts, turns // parts
    i0 = (first + turns - 1 - turn) * BLOCK_M
    i = i0 + tl.arange(0, BLOCK_M)
    mode = 0
    x = 0.0
    if CORE == 0:
        x = rows_of(X + at * own_total * D, i, own_total, D, DP, False)
    elif CORE == 1:
        mode = tl.load(MODES + (at if KEYS else at // group))
    XT, XL = XT + at * WIDTH * stride_x, XL + at * stride_x * DP
    own = at * tl.num_programs(0) + tl.program_id(0)  # memory of this program alone
    DS += own * BLOCK_M * BLOCK_N
    OTHERS += own * (BLOCK_M // HELD) * BLOCK_N * DP
    xo = XO + at * own_total * DVW
    if CORE == 0 or PRECISION != "bf16x6":  # else it is in parts, which stay in memory
        xo = rows_of(xo, i, own_total, DVW, DVP, False)
    dx, dv = pulls(CORE, BLOCK_M, DP), averages(CORE, BLOCK_M, DVP)
    lies = part * tl.num_programs(1) + at  # of all heads of one part after the other
    DX += lies * own_total * D
    if KEYS and GROUPED:
        for member in range(group):
            g = at * group + member
            dx, dv, sums = _pull_head(
                g,
                x,
                XL,
                xo,
                mode,
                dx,
                dv,
                Y,
                XT,
                YT,
                YL,
                R,
                OWN,
                BIAS,
                YO,
                TAU,
                DELTA,
                NORM,
                MEAN,
                LIST,
                COUNTS,
                LENGTHS,
                KEEP,
                LOW,
                HIGH,
                CENTRE,
                DS,
                OTHERS,
                TOTALS,
                SUMS,
                READS,
                MOVED,
                i0,
                n,
                m,
                part,
                reach,
                left,
                right,
                scale,
                narrow,
                seed,
                dropout,
                heads,
                group,
                keep_b,
                keep_h,
                stride_x,
                stride_y,
                power,
                CORE,
                D,
                DP,
                WIDTH,
                DVW,
                DVP,
                BLOCK_M,
                BLOCK_N,
                OWNED,
                BIASED,
                PADDED,
                KEPT,
                SPANNED,
                BELL,
                DROPPED,
                NORMED,
                SUMMED,
                CHOSEN,
                ALIGN,
                KEYS,
                READ,
                BOTH,
                PRECISION,
                INTERPRETED,
                MODIFIERS,
                MODIFY,
                SLOPES,
            )
            if CORE > 0:  # each head has a readout of its own: what it adds is added in memory, registers are full
                dx = received(dx, sums, READOUT + g * D, bend, linear, D, DP, BLOCK_M, CORE)
                put_pulls(DX, i0, own_total, dx, D, DP, BLOCK_M, CORE, member > 0)
                dx = pulls(CORE, BLOCK_M, DP)
        if CORE == 0:
            put_pulls(DX, i0, own_total, dx * bend, D, DP, BLOCK_M, CORE, False)
    else:
        dx, dv, sums = _pull_head(
            at,
            x,
            XL,
            xo,
            mode,
            dx,
            dv,
            Y,
            XT,
            YT,
            YL,
            R,
            OWN,
            BIAS,
            YO,
            TAU,
            DELTA,
            NORM,
            MEAN,
            LIST,
            COUNTS,
            LENGTHS,
            KEEP,
            LOW,
            HIGH,
            CENTRE,
            DS,
            OTHERS,
            TOTALS,
            SUMS,
            READS,
            MOVED,
            i0,
            n,
            m,
            part,
            reach,
            left,
            right,
            scale,
            narrow,
            seed,
            dropout,
            heads,
            group,
            keep_b,
            keep_h,
            stride_x,
            stride_y,
            power,
            CORE,
            D,
            DP,
            WIDTH,
            DVW,
            DVP,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            PADDED,
            KEPT,
            SPANNED,
            BELL,
            DROPPED,
            NORMED,
            SUMMED,
            CHOSEN,
            ALIGN,
            KEYS,
            READ,
            BOTH,
            PRECISION,
            INTERPRETED,
            MODIFIERS,
            MODIFY,
            SLOPES,
        )
        dx = received(dx, sums, READOUT + at * D, bend, linear, D, DP, BLOCK_M, CORE)
        put_pulls(DX, i0, own_total, dx, D, DP, BLOCK_M, CORE, False)
    if KEYS:
        put_averages(DV + lies * m * DVW, i, m, dv, DVW, DVP, CORE)
