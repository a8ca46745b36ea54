"""Feature-wise softmax: a weight for each pair and each feature, forward and backward, one number of each in a thread.

    s_ijf = h(a_if + b_jf) or h(a_if b_jf), + bias_jf;   out_if = sum_j softmax_j(s_ijf) v_jf

A program has a block of rows and of features and walks over the keys, one after the other: there is no product of
matrices to be had, so the time is that of the exponentials. The backward is the same walk twice, by blocks of rows and
by blocks of keys, so every sum has one owner and one order.

KIND   0 = tanh, from tables of exp(2x) (of x in base 2 where the head's MODE is 2): h = -2 r / (1 + exp(2 (x + y))),
           which is r tanh but for a constant; 1 = linear z + bent |z| with the slope of the negative side at 0;
           2 = the same, slope 0 at 0; 3 = -z^2 / 2
JOIN   0 = z is x + y, 1 = z is x y (KIND > 0)

Scores of tanh are in base 2, their `factor` holds log2(e). Others are in their own unit and differences of them are
turned into base 2, so that a large score is not rounded once more.
"""

import triton
import triton.language as tl

from .triton_launch import launched
from .triton_pairs import one_plus, reciprocal
from .triton_ranges import CHANGING, length_of

AT_A_TIME = tl.constexpr(4)  # keys, whose lines are read before the first of them is used


@triton.jit
def _z(x, y, JOIN: tl.constexpr):
    if JOIN == 0:
        return x + y
    else:
        return x * y


@triton.jit
def _score(x, y, factor, linear, bent, KIND: tl.constexpr, MODE: tl.constexpr, JOIN: tl.constexpr,
           INTERPRETED: tl.constexpr):  # fmt: skip
    if KIND == 0:
        return reciprocal(one_plus(x, y, MODE), INTERPRETED) * (-2.0 * factor)
    elif KIND == 3:
        z = _z(x, y, JOIN)
        return z * z * (-0.5 * factor)
    else:
        z = _z(x, y, JOIN)
        return (linear * z + bent * tl.abs(z)) * factor


@triton.jit
def _slope(x, y, linear, bent, KIND: tl.constexpr, MODE: tl.constexpr, JOIN: tl.constexpr, INTERPRETED: tl.constexpr):
    """h'(z), times y where z is x y; of tanh 4 (r - r^2) with r = 1 / (1 + exp(2z))."""
    if KIND == 0:
        r = reciprocal(one_plus(x, y, MODE), INTERPRETED)
        return 4.0 * (r - r * r)
    else:
        z = _z(x, y, JOIN)
        if KIND == 3:
            slope = -z
        else:
            below = -bent if KIND == 1 else bent * 0.0
            slope = linear + tl.where(z > 0, bent, tl.where(z < 0, -bent, below))
        return slope if JOIN == 0 else slope * y


@triton.jit
def _power(s, KIND: tl.constexpr):
    """exp of a difference of scores."""
    if KIND == 0:
        return tl.exp2(s)
    else:
        return tl.exp2(s * 1.4426950408889634)


@triton.jit
def _more(total, lost, x, EXACT: tl.constexpr):
    """total + x; EXACT: with what rounding loses kept beside it (Kahan's sum)."""
    if EXACT:
        x -= lost
        larger = total + x
        return larger, (larger - total) - x
    else:
        return total + x, lost


@triton.jit
def _line(base, j, f, F: tl.constexpr, other):
    """(1, BF): one place of a head's table (places, F)."""
    return tl.load(base + j * F + f, mask=f < F, other=other)[None, :]


@triton.jit
def _span(i0, m, left, right, BM: tl.constexpr):
    """The places that any of a block of rows may see."""
    start = tl.minimum(m, tl.maximum(0, i0 - left))
    return start, tl.maximum(start, tl.minimum(m, i0 + BM + right))


@triton.jit
def _may(i, j, left, right, KEEP, KEPT: tl.constexpr):
    """(BM, 1): the rows that may see place j."""
    may = (j >= i - left) & (j <= i + right)
    if KEPT:
        may = may & (tl.load(KEEP + j) > 0)
    return may[:, None]


@triton.jit
def _weigh(
    top, sums, acc, x, B, V, BIAS, KEEP, i, f, start, stop, left, right, factor, linear, bent,
    F: tl.constexpr, KIND: tl.constexpr, MODE: tl.constexpr, JOIN: tl.constexpr, BIASED: tl.constexpr,
    KEPT: tl.constexpr, BOUNDED: tl.constexpr, EXACT: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    less, lost = sums, sums
    for j in tl.range(start, stop, loop_unroll_factor=AT_A_TIME):
        s = _score(x, _line(B, j, f, F, 0.0), factor, linear, bent, KIND, MODE, JOIN, INTERPRETED)
        if BIASED:
            s += _line(BIAS, j, f, F, 0.0)
        s = tl.where(_may(i, j, left, right, KEEP, KEPT), s, -float("inf"))
        v = _line(V, j, f, F, 0.0).to(tl.float32)
        if BOUNDED:
            w = tl.exp2(s)
        else:
            higher = tl.maximum(top, s)
            safe = tl.where(higher == -float("inf"), 0.0, higher)
            # One of two exponents is 0: one exponential serves both.
            gap = _power(tl.minimum(top, s) - safe, KIND)
            rises = s > top
            fade, w = tl.where(rises, gap, 1.0), tl.where(rises, 1.0, gap)
            sums, acc, top = sums * fade, acc * fade, higher
            if EXACT:
                less, lost = less * fade, lost * fade
        sums, less = _more(sums, less, w, EXACT)
        acc, lost = _more(acc, lost, w * v, EXACT)
    return top, sums, acc


@launched
@triton.jit(do_not_specialize=CHANGING)
def features_kernel(
    A, B, V, BIAS, MODES, LENGTHS, KEEP, OUT, TOP, SUMS, n, m, left, right, factor, linear, bent, heads, keep_b, keep_h,
    F: tl.constexpr, BM: tl.constexpr, BF: tl.constexpr, KIND: tl.constexpr, JOIN: tl.constexpr,
    BIASED: tl.constexpr, PADDED: tl.constexpr, KEPT: tl.constexpr, BOUNDED: tl.constexpr, EXACT: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """out, and TOP and SUMS, (g, n, F) each: w = exp(s - top) / sums. A row that sees nobody has +inf and 1."""
    g = tl.program_id(2).to(tl.int64)
    i0, f = tl.program_id(0) * BM, tl.program_id(1) * BF + tl.arange(0, BF)
    i = i0 + tl.arange(0, BM)
    length = length_of(LENGTHS, g // heads, m, PADDED)
    B, V, BIAS = B + g * m * F, V + g * m * F, BIAS + g * m * F
    KEEP += g // heads * keep_b + g % heads * keep_h
    at = (g * n + i.to(tl.int64))[:, None] * F + f[None, :]
    real = (i < n)[:, None] & (f < F)[None, :]
    x = tl.load(A + at, mask=real, other=0.0)
    top = tl.full([BM, BF], 0.0 if BOUNDED else -float("inf"), tl.float32)
    sums, acc = tl.zeros([BM, BF], tl.float32), tl.zeros([BM, BF], tl.float32)
    start, stop = _span(i0, length, left, right, BM)
    mode = tl.load(MODES + g) if KIND == 0 else 0
    if mode == 0:
        top, sums, acc = _weigh(top, sums, acc, x, B, V, BIAS, KEEP, i, f, start, stop, left, right,
                                factor, linear, bent, F, KIND, 0, JOIN, BIASED, KEPT, BOUNDED, EXACT,
                                INTERPRETED)  # fmt: skip
    elif KIND == 0:
        top, sums, acc = _weigh(top, sums, acc, x, B, V, BIAS, KEEP, i, f, start, stop, left, right,
                                factor, linear, bent, F, KIND, 2, JOIN, BIASED, KEPT, BOUNDED, EXACT,
                                INTERPRETED)  # fmt: skip
    full = sums > 0
    sums = tl.where(full, sums, 1.0)
    tl.store(OUT + at, (acc / sums).to(OUT.dtype.element_ty), mask=real)
    tl.store(TOP + at, tl.where(full, top, float("inf")), mask=real)
    tl.store(SUMS + at, sums, mask=real)


@triton.jit
def _pull(
    dx, dv, ds_sum, x, own, Y, OTHER, BIAS, TOP, SHARE, DELTA, KEEP, i, f, start, stop, bias, top, share,
    delta, left, right, factor, linear, bent, F: tl.constexpr, KIND: tl.constexpr, MODE: tl.constexpr,
    JOIN: tl.constexpr, BIASED: tl.constexpr, KEPT: tl.constexpr, KEYS: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """own is dout of rows, or v of keys; OTHER the table of the other one."""
    for j in tl.range(start, stop, loop_unroll_factor=AT_A_TIME):
        y, other = _line(Y, j, f, F, 0.0), _line(OTHER, j, f, F, 0.0).to(tl.float32)
        s = _score(x, y, factor, linear, bent, KIND, MODE, JOIN, INTERPRETED)
        may = _may(i, j, left, right, KEEP, KEPT and not KEYS)
        if KEYS:
            s += bias - _line(TOP, j, f, F, float("inf"))
            w = tl.where(may, _power(s, KIND) * _line(SHARE, j, f, F, 0.0), 0.0)
            ds = w * (own * other - _line(DELTA, j, f, F, 0.0))
        else:
            if BIASED:
                s += _line(BIAS, j, f, F, 0.0)
            w = tl.where(may, _power(s - top, KIND) * share, 0.0)
            ds = w * (own * other - delta)
        dx += ds * _slope(x, y, linear, bent, KIND, MODE, JOIN, INTERPRETED)
        if KEYS:
            dv += w * other
            ds_sum += ds
    return dx, dv, ds_sum


@launched
@triton.jit(do_not_specialize=CHANGING)
def features_pull_kernel(
    X, Y, OWN, OTHER, BIAS, TOP, SHARE, DELTA, MODES, LENGTHS, KEEP, DX, DV, DBIAS, n, m, left, right, factor, linear,
    bent, heads, keep_b, keep_h, F: tl.constexpr, BM: tl.constexpr, BF: tl.constexpr, KIND: tl.constexpr,
    JOIN: tl.constexpr, BIASED: tl.constexpr, PADDED: tl.constexpr, KEPT: tl.constexpr, KEYS: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """What a block of rows (KEYS: of keys, which also have dv and the sums of ds) is handed back. SHARE is 1 / sums."""
    g = tl.program_id(2).to(tl.int64)
    i0, f = tl.program_id(0) * BM, tl.program_id(1) * BF + tl.arange(0, BF)
    i = i0 + tl.arange(0, BM)
    length = length_of(LENGTHS, g // heads, m, PADDED)
    count = m if KEYS else n
    total = n if KEYS else m
    KEEP += g // heads * keep_b + g % heads * keep_h
    at = (g * count + i.to(tl.int64))[:, None] * F + f[None, :]
    real = (i < count)[:, None] & (f < F)[None, :]
    x, own = tl.load(X + at, mask=real, other=0.0), tl.load(OWN + at, mask=real, other=0.0).to(tl.float32)
    Y, OTHER = Y + g * total * F, OTHER + g * total * F
    bias = tl.zeros([BM, BF], tl.float32)
    if KEYS:
        TOP, SHARE, DELTA = TOP + g * n * F, SHARE + g * n * F, DELTA + g * n * F
        top, share, delta = bias, bias, bias
        if BIASED:
            bias = tl.load(BIAS + at, mask=real, other=0.0)
        start, stop = _span(i0, n, right, left, BM)
        left, right = right, left
        sees = i < length
        if KEPT:
            sees = sees & (tl.load(KEEP + i, mask=i < m, other=0) > 0)
    else:
        top, share = tl.load(TOP + at, mask=real, other=float("inf")), tl.load(SHARE + at, mask=real, other=0.0)
        delta = tl.load(DELTA + at, mask=real, other=0.0)
        BIAS += g * m * F
        start, stop = _span(i0, length, left, right, BM)
        sees = i < n
    dx, dv, ds = tl.zeros([BM, BF], tl.float32), tl.zeros([BM, BF], tl.float32), tl.zeros([BM, BF], tl.float32)
    mode = tl.load(MODES + g) if KIND == 0 else 0
    if mode == 0:
        dx, dv, ds = _pull(dx, dv, ds, x, own, Y, OTHER, BIAS, TOP, SHARE, DELTA, KEEP, i, f, start, stop,
                           bias, top, share, delta, left, right, factor, linear, bent, F, KIND, 0, JOIN, BIASED, KEPT,
                           KEYS, INTERPRETED)  # fmt: skip
    elif KIND == 0:
        dx, dv, ds = _pull(dx, dv, ds, x, own, Y, OTHER, BIAS, TOP, SHARE, DELTA, KEEP, i, f, start, stop,
                           bias, top, share, delta, left, right, factor, linear, bent, F, KIND, 2, JOIN, BIASED, KEPT,
                           KEYS, INTERPRETED)  # fmt: skip
    tl.store(DX + at, tl.where(sees[:, None], dx, 0.0), mask=real)
    if KEYS:
        tl.store(DV + at, tl.where(sees[:, None], dv, 0.0).to(DV.dtype.element_ty), mask=real)
        if BIASED:
            tl.store(DBIAS + at, tl.where(sees[:, None], ds, 0.0), mask=real)
