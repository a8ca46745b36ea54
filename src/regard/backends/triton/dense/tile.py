"""A tile inside the dense kernels: where a block of rows stands, what it knows of them, and the scores of one tile."""

import triton
import triton.language as tl

from ..common.key_bias import with_columns
from ..common.pair_scores import above, beside, flat, pair_scores, places_in
from ..common.range_masks import allowed
from ..modifiers.chain import modified, modified_with_slope
from .primitives import numbers_of, product, rows_of

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def block_of(n, heads, BLOCK_M: tl.constexpr):
    """The head's number, its batch and head, the first row, the rows. The last rows come first: causality's longest."""
    g = tl.program_id(1).to(tl.int64)
    i0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    return g, g // heads, g % heads, i0, i0 + tl.arange(0, BLOCK_M)


@triton.jit
def products(
    x,
    XT,
    YT,
    Y,
    R,
    mode,
    COLUMNS,
    i0,
    first,
    total,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BIASED: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    ones=0.0,
):
    """What vectors x and those from `first` on say of each other, (BLOCK_M, BLOCK_N): a dot's without its scale."""
    if CORE == 0:
        y = rows_of(Y, first + tl.arange(0, BLOCK_N), total, D, DP, WHOLE)
        s = product(x, tl.trans(y), PRECISION, INTERPRETED)
        if BIASED == 2:
            s = with_columns(s, ones, COLUMNS, first, total, BLOCK_N, WHOLE, INTERPRETED)
        return s
    else:
        return flat(
            pair_scores(XT, YT, R, mode, i0, first, WIDTH, CORE, 4, BLOCK_M, BLOCK_N, INTERPRETED), BLOCK_M, BLOCK_N
        )


@triton.jit
def tile(
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
    total,
    left,
    right,
    scale,
    stride_x,
    stride_y,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    ones=0.0,
    batch=0,
    head=0,
    MODIFIERS=None,
    MODIFY: tl.constexpr = None,
    BASE_2: tl.constexpr = False,
):
    """Scores (BLOCK_M, BLOCK_N) of a tile, -inf where masked. `own` (BLOCK_M,) is added to rows, BIAS to columns.

    rows and columns bound what may be seen, total is the length of the table Y. MODIFY: modifiers of the scores of
    queries (rows) and keys (columns), if any; then scores come in their own unit, and leave in base 2 where BASE_2.
    """
    s = products(
        x,
        XT,
        YT,
        Y,
        R,
        mode,
        BIAS,
        i0,
        first,
        total,
        CORE,
        D,
        DP,
        WIDTH,
        BLOCK_M,
        BLOCK_N,
        BIASED,
        WHOLE,
        PRECISION,
        INTERPRETED,
        ones,
    )
    if CORE == 0:
        s *= scale
    return opened(
        s,
        i0 + tl.arange(0, BLOCK_M),
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
        False,
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
        BASE_2,
    )


@triton.jit
def tile_with_slope(
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
    total,
    left,
    right,
    scale,
    batch,
    head,
    MODIFIERS,
    CORE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
    ones,
    MODIFY: tl.constexpr,
    SLOPES: tl.constexpr,
    FROM: tl.constexpr,
    BASE_2: tl.constexpr,
    KEYS: tl.constexpr,
):
    """The scores of `tile`, and their slope by what the FROM-th modifier is given. KEYS: rows are keys."""
    s = products(
        x,
        XT,
        YT,
        Y,
        R,
        mode,
        BIAS,
        i0,
        first,
        total,
        CORE,
        D,
        DP,
        WIDTH,
        BLOCK_M,
        BLOCK_N,
        BIASED,
        WHOLE,
        PRECISION,
        INTERPRETED,
        ones,
    )
    i = i0 + tl.arange(0, BLOCK_M)
    s = biased(s * scale, own, BIAS, first, total, False, BLOCK_N, OWNED, BIASED, WHOLE)
    j = first + tl.arange(0, BLOCK_N)
    if KEYS:
        query, key = j[None, :], i[:, None]
    else:
        query, key = i[:, None], j[None, :]
    s, slope = modified_with_slope(s, query, key, batch, head, MODIFIERS, MODIFY, SLOPES, FROM)
    if BASE_2:
        s *= LOG2E
    s = closed(s, i, KEEP, low, high, first, rows, columns, total, left, right, False, BLOCK_N, KEPT, SPANNED, WHOLE)
    return s, slope


@triton.jit
def opened(
    s,
    i,
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
    DEEP: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    WHOLE: tl.constexpr,
    batch=0,
    head=0,
    MODIFIERS=None,
    MODIFY: tl.constexpr = None,
    BASE_2: tl.constexpr = False,
):
    """Scores with what belongs to rows and columns, modified, -inf where a pair is closed. DEEP: s is in patches
    (`flat`), and i, own, low and high are (T, BLOCK_M / T); such scores have no modifiers."""
    s = biased(s, own, BIAS, first, total, DEEP, BLOCK_N, OWNED, BIASED, WHOLE)
    if MODIFY is not None:
        s = modified(s, i[:, None], (first + tl.arange(0, BLOCK_N))[None, :], batch, head, MODIFIERS, MODIFY)
        if BASE_2:
            s *= LOG2E
    return closed(s, i, KEEP, low, high, first, rows, columns, total, left, right, DEEP, BLOCK_N, KEPT, SPANNED, WHOLE)


@triton.jit
def biased(
    s,
    own,
    BIAS,
    first,
    total,
    DEEP: tl.constexpr,
    BLOCK_N: tl.constexpr,
    OWNED: tl.constexpr,
    BIASED: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Scores with what belongs to rows and columns."""
    if OWNED:
        s += beside(own, DEEP)
    if BIASED == 1:
        j = first + (places_in(BLOCK_N, 4) if DEEP else tl.arange(0, BLOCK_N))
        s += above(numbers_of(BIAS, j, total, 0.0, WHOLE), DEEP)
    return s


@triton.jit
def closed(
    s,
    i,
    KEEP,
    low,
    high,
    first,
    rows,
    columns,
    total,
    left,
    right,
    DEEP: tl.constexpr,
    BLOCK_N: tl.constexpr,
    KEPT: tl.constexpr,
    SPANNED: tl.constexpr,
    WHOLE: tl.constexpr,
):
    """Scores, -inf where a pair is closed."""
    if not WHOLE:
        j = first + (places_in(BLOCK_N, 4) if DEEP else tl.arange(0, BLOCK_N))
        may = meeting(
            beside(i, DEEP),
            above(j, DEEP),
            KEEP,
            beside(low, DEEP),
            beside(high, DEEP),
            rows,
            columns,
            total,
            left,
            right,
            KEPT,
            SPANNED,
        )
        s = tl.where(may, s, -float("inf"))
    return s


@triton.jit
def meeting(i, j, KEEP, low, high, rows, columns, total, left, right, KEPT: tl.constexpr, SPANNED: tl.constexpr):
    """Which pairs of i and j, beside each other, may meet: within ranges, the keys' mask and the stretch of i."""
    may = allowed(i, j, rows, columns, left, right)
    if KEPT:
        may = may & (tl.load(KEEP + j, mask=j < total, other=0) > 0)
    if SPANNED:
        may = may & (j >= low) & (j < high)
    return may


@triton.jit
def bell(away, narrow):
    """exp(-away^2 / (2 width^2)), where narrow is log2(e) / (2 width^2)."""
    return tl.exp2(-away * away * narrow)


@triton.jit
def row_side(A, MODES, OWN, g, i, n, CORE: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, OWNED: tl.constexpr):
    """What a block knows of its rows: their vectors (a dot's), the mode of tanh, the constant of each row."""
    x = 0.0
    mode = 0
    if CORE == 0:
        x = rows_of(A + g * n * D, i, n, D, DP, False)
    elif CORE == 1:
        mode = tl.load(MODES)
    own = i.to(tl.float32) * 0.0
    if OWNED:
        own = tl.load(OWN + g * n + i, mask=i < n, other=0.0)
    return x, mode, own
