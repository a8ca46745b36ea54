"""Feature-wise softmax: a weight for each pair and each feature, forward and backward, one number of each in a thread.

    s_ijf = h(a_if + b_jf) or h(a_if b_jf), + bias_jf;   out_if = sum_j softmax_j(s_ijf) v_jf

A program has a block of rows and of features and walks over the keys, one after the other: there is no product of
matrices to be had, so the time is that of the exponentials. The backward is the same walk twice, by blocks of rows and
by blocks of keys, so every sum has one owner and one order. A thread has one feature of many rows: what it reads of a
key, and makes of it, serves them all. `primitives` says what KIND, JOIN and WALK are.
"""

import triton
import triton.language as tl

from ..common.range_masks import CHANGING, length_of, tiles_of
from ..runtime.fast_launcher import launched
from .primitives import (
    LOG2E,
    bias_of,
    features_of,
    is_near,
    line,
    may_see,
    more,
    place_of,
    power,
    score,
    side,
    slope,
    turns_of,
)

AT_A_TIME = tl.constexpr(4)  # keys, whose lines are read before the first of them is used
FOLLOWING = (*CHANGING, "bias_g", "bias_j", "bias_f")  # for which nothing is compiled anew


@triton.jit
def _weigh(
    top,
    sums,
    less,
    acc,
    lost,
    x,
    B,
    V,
    BIAS,
    KEEP,
    i,
    f,
    start,
    inner,
    outer,
    stop,
    near,
    left,
    right,
    factor,
    twice,
    linear,
    bent,
    bias_j,
    bias_f,
    F: tl.constexpr,
    KIND: tl.constexpr,
    JOIN: tl.constexpr,
    BIASED: tl.constexpr,
    KEPT: tl.constexpr,
    BOUNDED: tl.constexpr,
    EXACT: tl.constexpr,
    WALK: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    NEAR: tl.constexpr = KIND == 0 and WALK < 2
    x = side(x, twice, NEAR)
    for turn in tl.range(0, turns_of(start, inner, outer, stop, near, WALK), loop_unroll_factor=AT_A_TIME):
        j = place_of(turn, start, inner, outer, WALK)
        y, v = side(line(B, j, f, F), twice, NEAR), line(V, j, f, F).to(tl.float32)
        s = score(x, y, factor, twice, linear, bent, KIND, NEAR, JOIN, INTERPRETED)
        if BIASED:
            s += bias_of(BIAS, j, f, bias_j, bias_f, f < F, KIND)
        if WALK > 0:
            s = tl.where(may_see(i, j, left, right, KEEP, KEPT), s, -float("inf"))
        if BOUNDED:
            w = tl.exp2(s)
        else:
            higher = tl.maximum(top, s)
            safe = tl.where(higher == -float("inf"), 0.0, higher)
            # One of two exponents is 0: one exponential serves both.
            gap = power(tl.minimum(top, s) - safe, KIND)
            rises = s > top
            rescale, w = tl.where(rises, gap, 1.0), tl.where(rises, 1.0, gap)
            sums, acc, top = sums * rescale, acc * rescale, higher
            if EXACT:
                less, lost = less * rescale, lost * rescale
        sums, less = more(sums, less, w, EXACT)
        acc, lost = more(acc, lost, w * v, EXACT)
    return top, sums, less, acc, lost


@launched
@triton.jit(do_not_specialize=FOLLOWING)
def features_kernel(
    A,
    B,
    V,
    BIAS,
    LENGTHS,
    KEEP,
    OUT,
    TAU,
    ROWS,
    n,
    m,
    left,
    right,
    factor,
    twice,
    linear,
    bent,
    heads,
    keep_b,
    keep_h,
    bias_g,
    bias_j,
    bias_f,
    F: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BF: tl.constexpr,
    KIND: tl.constexpr,
    JOIN: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    BOUNDED: tl.constexpr,
    EXACT: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """out and TAU, (g, n, F): w = exp(s - tau). ROWS (2 or, BOUNDED, 1, g, n, F): w = exp(s - top) share, to the last
    bit; share, then top. A row that sees nobody has a tau and a top of +inf and a share of 0."""
    g = tl.program_id(2).to(tl.int64)
    i0, f = tl.program_id(0) * BLOCK_M, features_of(BF)
    i = i0 + tl.arange(0, BLOCK_M)[None, :]
    length = length_of(LENGTHS, g // heads, m, PADDED)
    B, V, BIAS = B + g * m * F, V + g * m * F, BIAS + g * bias_g
    KEEP += g // heads * keep_b + g % heads * keep_h
    first = (g * n + i0) * F
    A, OUT, TAU, ROWS = A + first, OUT + first, TAU + first, ROWS + first
    at = (i - i0) * F + f
    real = (i < n) & (f < F)
    x = tl.load(A + at, mask=real, other=0.0)
    top = tl.full([BF, BLOCK_M], 0.0 if BOUNDED else -float("inf"), tl.float32)
    sums = tl.zeros([BF, BLOCK_M], tl.float32)
    less, acc, lost = sums, sums, sums
    start, inner, outer, stop = tiles_of(i0, i0 + BLOCK_M, length, left, right, BLOCK_M, 1, KEPT)
    near = is_near(x, twice, KIND)
    for walk in tl.static_range(3 if KIND == 0 else 2):
        top, sums, less, acc, lost = _weigh(
            top,
            sums,
            less,
            acc,
            lost,
            x,
            B,
            V,
            BIAS,
            KEEP,
            i,
            f,
            start,
            inner,
            outer,
            stop,
            near,
            left,
            right,
            factor,
            twice,
            linear,
            bent,
            bias_j,
            bias_f,
            F,
            KIND,
            JOIN,
            BIASED,
            KEPT,
            BOUNDED,
            EXACT,
            walk,
            INTERPRETED,
        )
    full = (sums > 0) | (sums != sums)  # NaN: a row that sees what is no number
    sums = tl.where(full, sums, 1.0)
    tl.store(OUT + at, (acc / sums).to(OUT.dtype.element_ty), mask=real)
    scale = (top + factor) / LOG2E if KIND == 0 else top
    tl.store(TAU + at, tl.where(full, scale + tl.log(sums), float("inf")), mask=real)
    tl.store(ROWS + at, tl.where(full, 1.0 / sums, 0.0), mask=real)
    if not BOUNDED:
        tl.store(ROWS + tl.num_programs(2).to(tl.int64) * n * F + at, tl.where(full, top, float("inf")), mask=real)


@triton.jit
def _pull(
    dx,
    dv,
    ds_sum,
    less,
    lost,
    gone,
    x,
    own,
    Y,
    OTHER,
    BIAS,
    OUT,
    SHARE,
    TOP,
    KEEP,
    i,
    f,
    start,
    inner,
    outer,
    stop,
    near,
    bias,
    out,
    share,
    top,
    left,
    right,
    factor,
    twice,
    linear,
    bent,
    bias_j,
    bias_f,
    F: tl.constexpr,
    KIND: tl.constexpr,
    JOIN: tl.constexpr,
    BIASED: tl.constexpr,
    KEPT: tl.constexpr,
    BOUNDED: tl.constexpr,
    EXACT: tl.constexpr,
    KEYS: tl.constexpr,
    WALK: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """own is v of keys (KEYS), OTHER the table of dout, or else of v. ds = w dout (v - out); rows leave out dout."""
    NEAR: tl.constexpr = KIND == 0 and WALK < 2
    x = side(x, twice, NEAR)
    for turn in tl.range(0, turns_of(start, inner, outer, stop, near, WALK), loop_unroll_factor=AT_A_TIME):
        j = place_of(turn, start, inner, outer, WALK)
        y, other = side(line(Y, j, f, F), twice, NEAR), line(OTHER, j, f, F).to(tl.float32)
        s = score(x, y, factor, twice, linear, bent, KIND, NEAR, JOIN, INTERPRETED)
        if KEYS:
            out, share = line(OUT, j, f, F).to(tl.float32), line(SHARE, j, f, F)
            if not BOUNDED:
                top = line(TOP, j, f, F)
        elif BIASED:
            bias = bias_of(BIAS, j, f, bias_j, bias_f, f < F, KIND)
        if BIASED:
            s += bias
        w = power(s if BOUNDED else s - top, KIND) * share
        if WALK > 0:
            w = tl.where(may_see(i, j, left, right, KEEP, KEPT and not KEYS), w, 0.0)
        if KEYS:
            w *= other
            dv, lost = more(dv, lost, w, EXACT)
            ds = w * (own - out)
            if BIASED:
                ds_sum, gone = more(ds_sum, gone, ds, EXACT)
        else:
            ds = w * (other - out)
        bend = slope(x, y, twice, linear, bent, KIND, NEAR, JOIN, INTERPRETED)
        dx, less = more(dx, less, ds * bend, EXACT)
    return dx, dv, ds_sum, less, lost, gone


@launched
@triton.jit(do_not_specialize=FOLLOWING)
def features_pull_kernel(
    X,
    Y,
    OWN,
    OTHER,
    BIAS,
    OUT,
    ROWS,
    LENGTHS,
    KEEP,
    DX,
    DV,
    DBIAS,
    n,
    m,
    left,
    right,
    factor,
    twice,
    linear,
    bent,
    heads,
    keep_b,
    keep_h,
    bias_g,
    bias_j,
    bias_f,
    gain,
    F: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BF: tl.constexpr,
    KIND: tl.constexpr,
    JOIN: tl.constexpr,
    BIASED: tl.constexpr,
    PADDED: tl.constexpr,
    KEPT: tl.constexpr,
    BOUNDED: tl.constexpr,
    EXACT: tl.constexpr,
    KEYS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """What a block of rows (KEYS: of keys, which also have dv and the sums of ds) is handed back, each number once.

    gain: of s, by which a slope is multiplied.
    """
    g = tl.program_id(2).to(tl.int64)
    i0, f = tl.program_id(0) * BLOCK_M, features_of(BF)
    i = i0 + tl.arange(0, BLOCK_M)[None, :]
    length = length_of(LENGTHS, g // heads, m, PADDED)
    count = m if KEYS else n
    total = n if KEYS else m
    KEEP += g // heads * keep_b + g % heads * keep_h
    first = (g * count + i0) * F
    X, OWN, DX, DV, DBIAS = X + first, OWN + first, DX + first, DV + first, DBIAS + first
    Y, OTHER, BIAS = Y + g * total * F, OTHER + g * total * F, BIAS + g * bias_g
    rows = g * n * F if KEYS else first  # of tables of queries
    OUT, ROWS = OUT + rows, ROWS + rows
    at = (i - i0) * F + f
    real = (i < count) & (f < F)
    x = tl.load(X + at, mask=real, other=0.0)
    TOP = ROWS + tl.num_programs(2).to(tl.int64) * n * F
    dx = tl.zeros([BF, BLOCK_M], tl.float32)
    dv, ds, less, lost, gone = dx, dx, dx, dx, dx
    own, bias, out, share, top = dx, dx, dx, dx, dx
    if KEYS:
        own = tl.load(OWN + at, mask=real, other=0.0).to(tl.float32)
        out, share, top = tl.zeros([BF, 1], tl.float32), tl.zeros([BF, 1], tl.float32), tl.zeros([BF, 1], tl.float32)
        if BIASED:
            bias = bias_of(BIAS, i, f, bias_j, bias_f, real, KIND)
        start, inner, outer, stop = tiles_of(i0, i0 + BLOCK_M, n, right, left, BLOCK_M, 1, False)
        left, right = right, left
        sees = i < length
        if KEPT:
            sees = sees & (tl.load(KEEP + i, mask=i < m, other=0) > 0)
    else:
        out, share = tl.load(OUT + at, mask=real, other=0.0).to(tl.float32), tl.load(ROWS + at, mask=real, other=0.0)
        if not BOUNDED:
            top = tl.load(TOP + at, mask=real, other=float("inf"))
        start, inner, outer, stop = tiles_of(i0, i0 + BLOCK_M, length, left, right, BLOCK_M, 1, KEPT)
        sees = i < n
    near = is_near(x, twice, KIND)
    for walk in tl.static_range(3 if KIND == 0 else 2):
        dx, dv, ds, less, lost, gone = _pull(
            dx,
            dv,
            ds,
            less,
            lost,
            gone,
            x,
            own,
            Y,
            OTHER,
            BIAS,
            OUT,
            ROWS,
            TOP,
            KEEP,
            i,
            f,
            start,
            inner,
            outer,
            stop,
            near,
            bias,
            out,
            share,
            top,
            left,
            right,
            factor,
            twice,
            linear,
            bent,
            bias_j,
            bias_f,
            F,
            KIND,
            JOIN,
            BIASED,
            KEPT,
            BOUNDED,
            EXACT,
            KEYS,
            walk,
            INTERPRETED,
        )
    if not KEYS:
        dx *= tl.load(OWN + at, mask=real, other=0.0).to(tl.float32)  # now: it would be held through the walk
    tl.store(DX + at, tl.where(sees, dx * gain, 0.0).to(DX.dtype.element_ty), mask=real)
    if KEYS:
        tl.store(DV + at, tl.where(sees, dv, 0.0).to(DV.dtype.element_ty), mask=real)
        if BIASED:
            tl.store(DBIAS + at, tl.where(sees, ds, 0.0).to(DBIAS.dtype.element_ty), mask=real)
