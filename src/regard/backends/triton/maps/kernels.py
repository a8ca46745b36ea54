"""What is read off a map: walks over its tiles of scores, nothing of n x m written unless it is asked.

Operations of a dot: 2 n m d and n m exponentials a head and walk; bytes: 2 (n + m) d b, and what is written. The first
walk leaves the logarithm of each row's sum, if it is not known; each other adds weights up: into cells of C x C, along
rows or along columns. A tile holds whole cells and a program whole rows, so each is written once and no atomic is used.
Numbers that change from read to read are not specialised: no length and no place in a map compiles a kernel anew.
"""

import triton
import triton.language as tl

from ..common.range_masks import CHANGING, narrowed, partial_tile, partial_tiles, tiles_of
from ..dense.primitives import rows_of
from ..dense.tile import LN2
from ..runtime.fast_launcher import launched
from .tile import head_of, known_of, of_head, opened_of, places_of, scores_of, terms_of, weights_of

NOTHING, ENTROPY, CELLS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)  # what weights of rows are read for


@triton.jit
def _summed(top, total, s, scale):
    """One more tile of scores, times scale, in log2 sum exp2: kept as the largest and a sum relative to it."""
    higher = tl.maximum(top, tl.max(s, 1) * scale)
    safe = tl.where(higher == -float("inf"), 0.0, higher)
    total = total * tl.exp2(top - safe) + tl.sum(tl.exp2(s * scale - safe[:, None]), 1)
    return higher, total


@triton.jit
def _pooled(w, MASS, PEAK, at, real, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, C: tl.constexpr):
    parts = tl.reshape(w, (BLOCK_M // C, C, BLOCK_N // C, C))
    tl.store(MASS + at, tl.sum(tl.sum(parts, 3), 1), mask=real)
    tl.store(PEAK + at, tl.max(tl.max(parts, 3), 1), mask=real)


@triton.jit
def _counted(COUNT, at, real, may, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, C: tl.constexpr):
    tl.store(
        COUNT + at, tl.sum(tl.sum(tl.reshape(may.to(tl.int32), (BLOCK_M // C, C, BLOCK_N // C, C)), 3), 1), mask=real
    )


@launched
@triton.jit(do_not_specialize=CHANGING)
def rows_kernel(
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
    SEED,
    TAU,
    SHARE,
    CENTRE,
    INDEX,
    POWER,
    OUT,
    PEAK,
    COUNT,
    n,
    m,
    rows,
    columns,
    left,
    right,
    scale,
    cap,
    cool,
    narrow,
    first_head,
    heads,
    features,
    keep_b,
    keep_h,
    stride_x,
    stride_y,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    ALIGN: tl.constexpr,
    PICKED: tl.constexpr,
    PICKS: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    SHARED: tl.constexpr,
    BELL: tl.constexpr,
    CAPPED: tl.constexpr,
    SAMPLED: tl.constexpr,
    PLAIN: tl.constexpr,
    WHAT: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """A block of rows walks over the keys that it may see. WHAT it leaves in OUT:

    CELLS    sum of the weights of each cell, the largest in PEAK, and how many pairs may meet in COUNT
    ENTROPY  -sum_j w_ij log w_ij of each row; 0 for an empty one
    NOTHING  of weights: log sum exp of each row's scores; +inf for an empty row

    PLAIN: nothing is added to the product, whose scale is positive: it is multiplied after the largest is found. The
    last rows come first: under causality they have the most to do.
    """
    before, after = scale, 1.0
    if PLAIN:
        before, after = 1.0, scale
    g = tl.program_id(1).to(tl.int64)
    i0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    own, batch, head, length, kept = head_of(g, first_head, heads, features, LENGTHS, m, keep_b, keep_h, PADDED)
    i = i0 + tl.arange(0, BLOCK_M)
    x = 0.0
    if CORE == 0:
        x = rows_of(A + g * n * D, i, n, D, DP, False)
    mode, seed, power = of_head(MODES, SEED, POWER, g, own, CORE, ALIGN, SAMPLED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + g * WIDTH * stride_y, R + g * (WIDTH + 1)
    B, BIAS, KEEP, INDEX = B + g * m * D, BIAS + g * m, KEEP + kept, INDEX + g * n * PICKS
    tau, added, share, centre, low, high = known_of(
        TAU, OWN, SHARE, CENTRE, LOW, HIGH, g * n, own * n, i[:, None], n, ALIGN, OWNED, SHARED, BELL, SPANNED
    )
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BLOCK_M, BLOCK_N, KEPT)
    if SPANNED:
        start, inner, outer, stop = narrowed(
            start,
            inner,
            outer,
            stop,
            tl.reshape(low, [BLOCK_M]),
            tl.reshape(high, [BLOCK_M]),
            i < n,
            length,
            BLOCK_N,
            SPANNED,
        )
    total = tl.zeros([BLOCK_M], tl.float32)
    top = total - float("inf")
    line = (g * rows + (i0 // C + tl.arange(0, BLOCK_M // C)).to(tl.int64)[:, None]) * columns
    in_rows = (i0 // C + tl.arange(0, BLOCK_M // C) < rows)[:, None]
    for first in range(inner, outer, BLOCK_N):
        s = scores_of(
            x,
            AT,
            BT,
            B,
            R,
            mode,
            added,
            BIAS,
            seed,
            i0,
            first,
            m,
            m,
            before,
            cap,
            cool,
            batch,
            head,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            CAPPED,
            SAMPLED,
            False,
            True,
            PRECISION,
            INTERPRETED,
        )
        if WHAT == NOTHING:
            top, total = _summed(top, total, s, after)
        else:
            places, j = places_of(i0, first, BLOCK_M, BLOCK_N, False)
            z = s * after - tau
            w = weights_of(
                z, places, j, share, centre, INDEX, power, narrow, n, ALIGN, SHARED, BELL, PICKED, PICKS, INTERPRETED
            )
            if WHAT == ENTROPY:
                total += tl.sum(terms_of(z, w, ALIGN, BELL, PICKED), 1)
            else:
                column = first // C + tl.arange(0, BLOCK_N // C)
                at, real = line + column[None, :], in_rows & (column < columns)[None, :]
                _pooled(w, OUT, PEAK, at, real, BLOCK_M, BLOCK_N, C)
                tl.store(COUNT + at, tl.full([BLOCK_M // C, BLOCK_N // C], C * C, tl.int32), mask=real)
    for turn in range(partial_tiles(start, inner, outer, stop, BLOCK_N)):
        first = partial_tile(turn, start, inner, outer, BLOCK_N)
        places, j = places_of(i0, first, BLOCK_M, BLOCK_N, False)
        s = scores_of(
            x,
            AT,
            BT,
            B,
            R,
            mode,
            added,
            BIAS,
            seed,
            i0,
            first,
            m,
            m,
            before,
            cap,
            cool,
            batch,
            head,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            CAPPED,
            SAMPLED,
            False,
            False,
            PRECISION,
            INTERPRETED,
        )
        s, may = opened_of(s, places, j, KEEP, low, high, n, length, m, left, right, KEPT, SPANNED)
        if WHAT == NOTHING:
            top, total = _summed(top, total, s, after)
        else:
            z = s * after - tau
            w = weights_of(
                z, places, j, share, centre, INDEX, power, narrow, n, ALIGN, SHARED, BELL, PICKED, PICKS, INTERPRETED
            )
            if WHAT == ENTROPY:
                total += tl.sum(terms_of(z, w, ALIGN, BELL, PICKED), 1)
            else:
                column = first // C + tl.arange(0, BLOCK_N // C)
                at, real = line + column[None, :], in_rows & (column < columns)[None, :]
                _pooled(w, OUT, PEAK, at, real, BLOCK_M, BLOCK_N, C)
                _counted(COUNT, at, real, may, BLOCK_M, BLOCK_N, C)
    if WHAT == NOTHING:
        tl.store(OUT + g * n + i, tl.where(total > 0, top + tl.log2(total), float("inf")) * LN2, mask=i < n)
    elif WHAT == ENTROPY:
        tl.store(OUT + g * n + i, -total * LN2, mask=i < n)


@launched
@triton.jit(do_not_specialize=CHANGING)
def keys_kernel(
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
    SEED,
    TAU,
    SHARE,
    CENTRE,
    INDEX,
    POWER,
    MASS,
    n,
    m,
    left,
    right,
    scale,
    cap,
    cool,
    narrow,
    first_head,
    heads,
    features,
    keep_b,
    keep_h,
    stride_x,
    stride_y,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ALIGN: tl.constexpr,
    PICKED: tl.constexpr,
    PICKS: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    SHARED: tl.constexpr,
    BELL: tl.constexpr,
    CAPPED: tl.constexpr,
    SAMPLED: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """sum_i w_ij of each key: a program has BLOCK_M keys and walks over the rows that may see them."""
    g = tl.program_id(1).to(tl.int64)
    j0 = tl.program_id(0) * BLOCK_M
    own, batch, head, length, kept = head_of(g, first_head, heads, features, LENGTHS, m, keep_b, keep_h, PADDED)
    x = 0.0
    if CORE == 0:
        x = rows_of(B + g * m * D, j0 + tl.arange(0, BLOCK_M), m, D, DP, False)
    mode, seed, power = of_head(MODES, SEED, POWER, g, own, CORE, ALIGN, SAMPLED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + g * WIDTH * stride_y, R + g * (WIDTH + 1)
    A, BIAS, KEEP, INDEX = A + g * n * D, BIAS + g * m, KEEP + kept, INDEX + g * n * PICKS
    start, inner, outer, stop = tiles_of(j0, length, n, right, left, BLOCK_M, BLOCK_N, KEPT or SPANNED)
    total = tl.zeros([BLOCK_M], tl.float32)
    for first in range(inner, outer, BLOCK_N):
        i, j = places_of(j0, first, BLOCK_M, BLOCK_N, True)
        tau, added, share, centre, low, high = known_of(
            TAU, OWN, SHARE, CENTRE, LOW, HIGH, g * n, own * n, i, n, ALIGN, OWNED, SHARED, BELL, SPANNED
        )
        s = scores_of(
            x,
            BT,
            AT,
            A,
            R,
            mode,
            added,
            BIAS,
            seed,
            j0,
            first,
            n,
            m,
            scale,
            cap,
            cool,
            batch,
            head,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            CAPPED,
            SAMPLED,
            True,
            True,
            PRECISION,
            INTERPRETED,
        )
        total += tl.sum(
            weights_of(
                s - tau, i, j, share, centre, INDEX, power, narrow, n, ALIGN, SHARED, BELL, PICKED, PICKS, INTERPRETED
            ),
            1,
        )
    for turn in range(partial_tiles(start, inner, outer, stop, BLOCK_N)):
        first = partial_tile(turn, start, inner, outer, BLOCK_N)
        i, j = places_of(j0, first, BLOCK_M, BLOCK_N, True)
        tau, added, share, centre, low, high = known_of(
            TAU, OWN, SHARE, CENTRE, LOW, HIGH, g * n, own * n, i, n, ALIGN, OWNED, SHARED, BELL, SPANNED
        )
        s = scores_of(
            x,
            BT,
            AT,
            A,
            R,
            mode,
            added,
            BIAS,
            seed,
            j0,
            first,
            n,
            m,
            scale,
            cap,
            cool,
            batch,
            head,
            CORE,
            D,
            DP,
            WIDTH,
            BLOCK_M,
            BLOCK_N,
            OWNED,
            BIASED,
            CAPPED,
            SAMPLED,
            True,
            False,
            PRECISION,
            INTERPRETED,
        )
        s, _ = opened_of(s, i, j, KEEP, low, high, n, length, m, left, right, KEPT, SPANNED)
        total += tl.sum(
            weights_of(
                s - tau, i, j, share, centre, INDEX, power, narrow, n, ALIGN, SHARED, BELL, PICKED, PICKS, INTERPRETED
            ),
            1,
        )
    j = j0 + tl.arange(0, BLOCK_M)
    tl.store(MASS + g * m + j, total, mask=j < m)


@launched
@triton.jit(do_not_specialize=CHANGING)
def tile_kernel(
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
    SEED,
    TAU,
    SHARE,
    CENTRE,
    INDEX,
    POWER,
    PLACES,
    WEIGHTS,
    n,
    m,
    rows,
    columns,
    top,
    first,
    left,
    right,
    scale,
    cap,
    cool,
    narrow,
    first_head,
    heads,
    features,
    keep_b,
    keep_h,
    stride_x,
    stride_y,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    ALIGN: tl.constexpr,
    PICKED: tl.constexpr,
    PICKS: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    SHARED: tl.constexpr,
    BELL: tl.constexpr,
    CAPPED: tl.constexpr,
    SAMPLED: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """The weights themselves: of `rows` x `columns` from (top, first) on, (g, rows, columns), a tile a program; or,
    where C > 0, of cells of C x C at PLACES (count, 3) = head, row and column of cells, (count, C, C).

    Tiles begin at multiples of their sides, as tables of pairs do; what stands around is not written.
    """
    if C > 0:
        p = tl.program_id(0).to(tl.int64)
        g = tl.load(PLACES + 3 * p)
        top, first = (tl.load(PLACES + 3 * p + 1) * C).to(tl.int32), (tl.load(PLACES + 3 * p + 2) * C).to(tl.int32)
        i0, j0, high_end, wide_end = top // BLOCK_M * BLOCK_M, first // BLOCK_N * BLOCK_N, top + C, first + C
        at, line = p * C * C, C
    else:
        g = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(first + columns, BLOCK_N) - first // BLOCK_N
        i0, j0 = (
            (top // BLOCK_M + tl.program_id(0) // across) * BLOCK_M,
            (first // BLOCK_N + tl.program_id(0) % across) * BLOCK_N,
        )
        high_end, wide_end = top + rows, first + columns
        at, line = g * rows * columns, columns
    own, batch, head, length, kept = head_of(g, first_head, heads, features, LENGTHS, m, keep_b, keep_h, PADDED)
    x = 0.0
    if CORE == 0:
        x = rows_of(A + g * n * D, i0 + tl.arange(0, BLOCK_M), n, D, DP, False)
    mode, seed, power = of_head(MODES, SEED, POWER, g, own, CORE, ALIGN, SAMPLED)
    AT, BT, R = AT + g * WIDTH * stride_x, BT + g * WIDTH * stride_y, R + g * (WIDTH + 1)
    B, BIAS, KEEP, INDEX = B + g * m * D, BIAS + g * m, KEEP + kept, INDEX + g * n * PICKS
    i, j = places_of(i0, j0, BLOCK_M, BLOCK_N, False)
    tau, added, share, centre, low, high = known_of(
        TAU, OWN, SHARE, CENTRE, LOW, HIGH, g * n, own * n, i, n, ALIGN, OWNED, SHARED, BELL, SPANNED
    )
    s = scores_of(
        x,
        AT,
        BT,
        B,
        R,
        mode,
        added,
        BIAS,
        seed,
        i0,
        j0,
        m,
        m,
        scale,
        cap,
        cool,
        batch,
        head,
        CORE,
        D,
        DP,
        WIDTH,
        BLOCK_M,
        BLOCK_N,
        OWNED,
        BIASED,
        CAPPED,
        SAMPLED,
        False,
        False,
        PRECISION,
        INTERPRETED,
    )
    s, _ = opened_of(s, i, j, KEEP, low, high, n, length, m, left, right, KEPT, SPANNED)
    w = weights_of(
        s - tau, i, j, share, centre, INDEX, power, narrow, n, ALIGN, SHARED, BELL, PICKED, PICKS, INTERPRETED
    )
    inside = (i >= top) & (i < high_end) & (j >= first) & (j < wide_end)
    tl.store(WEIGHTS + at + (i - top).to(tl.int64) * line + (j - first), w, mask=inside)
