"""What the dense kernels are made of: a tile of scores, weights from scores, what scores hand back to their vectors.

CORE   0 = dot, scale x . y
       1 = tanh by reciprocals: sum_d r_d / (1 + exp(2 (x_d + y_d))); two fractions are added before one division
       2 = sum_d r_d |x_d + y_d|, whose slope at 0 is that of the negative side (leaky ReLU); 3 = the same, slope 0 at 0
MODE   of tanh, one a head: 0 = exp(2x) exp(2y) as it is, for |x| + |y| < 21; 1 = bounded, for |x|, |y| < 43;
       2 = exp(2 (x + y)), for any; tables then hold exponents instead of exponentials
ALIGN  0 = softmax, 1 = sigmoid, 2 = sparsemax, 3 = entmax 1.5, 4 = entmax of any alpha (power = 1 / (alpha - 1))

Softmax and sigmoid take scores in base 2. Tables of pairs are fp32 and padded to whole tiles, so that reading needs no
mask: `across` (width, places) serves scores, `along` (places, width) serves gradients.
"""

import triton
import triton.language as tl

MOST = tl.constexpr(60.0)  # exponent of a bounded sum: the product of two such sums is finite
LEAST = tl.constexpr(2.0**-59)
BOUND = tl.constexpr(1152921504606846976.0)  # 2^60


@triton.jit
def reciprocal(x, INTERPRETED: tl.constexpr):
    if INTERPRETED:  # the interpreter has no assembly
        return 1.0 / x
    else:
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def one_plus(u, w, MODE: tl.constexpr):
    """1 + exp(2 (x + y))"""
    if MODE == 0:
        return u * w + 1.0
    elif MODE == 1:
        return tl.minimum(u * w, BOUND) + 1.0
    else:
        return tl.exp2(tl.minimum(u + w, MOST)) + 1.0


@triton.jit
def _pairs(
    X, Y, R, x, y, stride_x, stride_y, WIDTH: tl.constexpr, CORE: tl.constexpr, MODE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    x, y = x + eighths(BM), y + tl.reshape(tl.arange(0, BN), [1, BN, 1])
    s = tl.zeros([BM // 8, BN, 8], tl.float32)
    y1, y2 = tl.load(Y + y), tl.load(Y + stride_y + y)
    for d in range(0, WIDTH, 2):
        ahead = tl.minimum(d + 2, WIDTH - 2) * stride_y  # keys are read once and come from afar: one turn ahead
        next1, next2 = tl.load(Y + ahead + y), tl.load(Y + ahead + stride_y + y)
        x1, x2 = tl.load(X + d * stride_x + x), tl.load(X + (d + 1) * stride_x + x)
        r1, r2 = tl.load(R + d), tl.load(R + d + 1)
        if CORE == 1:
            p1, p2 = one_plus(x1, y1, MODE), one_plus(x2, y2, MODE)
            s += (r1 * p2 + r2 * p1) * reciprocal(p1 * p2, INTERPRETED)
        else:
            s += r1 * tl.abs(x1 + y1)
            s += r2 * tl.abs(x2 + y2)
        y1, y2 = next1, next2
    return tl.reshape(tl.permute(s, (0, 2, 1)), [BM, BN])


@triton.jit
def pair_scores(
    X, Y, R, mode, x, y, stride_x, stride_y, WIDTH: tl.constexpr, CORE: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """(BM, BN) of the places from x and y on, from tables that lie across."""
    if CORE > 1 or mode == 0:
        s = _pairs(X, Y, R, x, y, stride_x, stride_y, WIDTH, CORE, 0, BM, BN, INTERPRETED)
    elif mode == 1:
        s = _pairs(X, Y, R, x, y, stride_x, stride_y, WIDTH, CORE, 1, BM, BN, INTERPRETED)
    else:
        s = _pairs(X, Y, R, x, y, stride_x, stride_y, WIDTH, CORE, 2, BM, BN, INTERPRETED)
    return s


@triton.jit
def product(x, y, PRECISION: tl.constexpr, INTERPRETED: tl.constexpr):
    if INTERPRETED:  # its product of bfloat16 is wrong
        return tl.dot(x.to(tl.float32), y.to(tl.float32), input_precision="ieee")
    else:
        return tl.dot(x, y, input_precision=PRECISION)


@triton.jit
def average(p, v, CORE: tl.constexpr, PRECISION: tl.constexpr, INTERPRETED: tl.constexpr):
    """p v (rows, DVP); of pairs its transpose.

    The second factor of a product is read from shared memory, so that the layout of a product's result does not reach
    the loop over a pair's features, where it would cost a load for each number.
    """
    if CORE == 0:
        return product(p.to(v.dtype), v, PRECISION, INTERPRETED)
    else:
        return product(tl.trans(v), tl.trans(p.to(v.dtype)), PRECISION, INTERPRETED)


@triton.jit
def averages(CORE: tl.constexpr, BM: tl.constexpr, DVP: tl.constexpr):
    """Zeros to add averages to."""
    if CORE == 0:
        return tl.zeros([BM, DVP], tl.float32)
    else:
        return tl.zeros([DVP, BM], tl.float32)


@triton.jit
def times(acc, x, CORE: tl.constexpr):
    """Averages with each row times a number."""
    if CORE == 0:
        return acc * x[:, None]
    else:
        return acc * x[None, :]


@triton.jit
def put_averages(base, i, count, acc, D: tl.constexpr, DP: tl.constexpr, CORE: tl.constexpr):
    """Averages into a contiguous table (count, D)."""
    d = tl.arange(0, DP)
    if CORE == 0:
        at, real = i.to(tl.int64)[:, None] * D + d[None, :], (i < count)[:, None] & (d < D)[None, :]
    else:
        at, real = i.to(tl.int64)[None, :] * D + d[:, None], (i < count)[None, :] & (d < D)[:, None]
    tl.store(base + at, acc.to(base.dtype.element_ty), mask=real)


@triton.jit
def rows_of(base, i, count, D: tl.constexpr, DP: tl.constexpr, WHOLE: tl.constexpr):
    """(rows, DP) of a contiguous table (count, D); 0 beyond it. WHOLE: every row is there."""
    d = tl.arange(0, DP)
    at = base + i.to(tl.int64)[:, None] * D + d[None, :]
    if WHOLE and D == DP:
        return tl.load(at)
    else:
        return tl.load(at, mask=(i < count)[:, None] & (d < D)[None, :], other=0.0)


@triton.jit
def numbers_of(base, i, count, other, WHOLE: tl.constexpr):
    """One number a place. WHOLE: every place is there."""
    if WHOLE:
        return tl.load(base + i)
    else:
        return tl.load(base + i, mask=i < count, other=other)


@triton.jit
def logistic(x, INTERPRETED: tl.constexpr):
    """1 / (1 + 2^x), 2^-60 at least.

    Special functions are what a sigmoid waits for: two fractions share one reciprocal. The hardware's tanh would be one
    a weight, but weights of about 1 / n are what its error leaves of 1 + tanh.
    """
    e = tl.exp2(tl.minimum(x, MOST))
    if INTERPRETED:
        return 1.0 / (1.0 + e)
    else:
        return tl.inline_asm_elementwise(
            """{
            .reg .f32 p, q, r;
            add.f32 p, $2, 0f3F800000;
            add.f32 q, $3, 0f3F800000;
            mul.f32 r, p, q;
            rcp.approx.ftz.f32 r, r;
            mul.f32 $0, q, r;
            mul.f32 $1, p, r;
            }""",
            "=f,=f,f,f", [e], tl.float32, True, 2)  # fmt: skip


@triton.jit
def weights(s, tau, power, ALIGN: tl.constexpr, INTERPRETED: tl.constexpr, WHOLE: tl.constexpr = False):
    """f(s - tau); 0 where s is -inf or tau is +inf. WHOLE: no pair is closed."""
    if ALIGN == 0:
        return tl.exp2(s - tau)
    elif ALIGN == 1:
        w = logistic(tau - s, INTERPRETED)
        return w if WHOLE else tl.maximum(w - LEAST, 0.0)
    elif ALIGN == 2:
        return tl.maximum(s - tau, 0.0)
    elif ALIGN == 3:
        half = tl.maximum(s - tau, 0.0) * 0.5
        return half * half
    else:
        base = tl.maximum(s - tau, 0.0) / power
        return tl.where(base > 0, tl.exp2(tl.log2(tl.maximum(base, 1e-38)) * power), 0.0)


@triton.jit
def slopes(s, tau, power, ALIGN: tl.constexpr):
    """f'(s - tau) of sparse alignments: w^(2 - alpha) on the support."""
    if ALIGN == 2:
        return tl.where(s > tau, 1.0, 0.0)
    elif ALIGN == 3:
        return tl.maximum(s - tau, 0.0) * 0.5
    else:
        base = tl.maximum(s - tau, 0.0) / power
        return tl.where(base > 0, tl.exp2(tl.log2(tl.maximum(base, 1e-38)) * (power - 1.0)), 0.0)


@triton.jit
def moments(s, tau, power, ALIGN: tl.constexpr):
    """Of each row, the sums of f, f' and f'' at s - tau (f'' of entmax 1.5 alone: the others step by f and f')."""
    if ALIGN == 3:
        rest = tl.maximum(s - tau, 0.0)
        return 0.25 * tl.sum(rest * rest, 1), 0.5 * tl.sum(rest, 1), 0.5 * tl.sum((rest > 0).to(tl.float32), 1)
    else:
        slope = tl.sum(slopes(s, tau, power, ALIGN), 1)
        return tl.sum(weights(s, tau, power, ALIGN, True), 1), slope, slope * 0.0


@triton.jit
def pulled(s, tau, w, dw, delta, power, ALIGN: tl.constexpr):
    """The gradient of the scores from that of the weights; delta is the mean of dw that the row takes out."""
    if ALIGN == 0:
        return w * (dw - delta)
    elif ALIGN == 1:
        return w * (1.0 - w) * dw
    else:
        return slopes(s, tau, power, ALIGN) * (dw - delta)


@triton.jit
def _pull_pairs(
    DS, Y, x, first, acc, read, CORE: tl.constexpr, MODE: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, READ: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    i, d = eighths(BM), tl.reshape(tl.arange(0, DP), [1, DP, 1])
    at = Y + first * DP + d  # within a head
    d1, d2, y1, y2 = tl.load(DS + i), tl.load(DS + BM + i), tl.load(at), tl.load(at + DP)
    for k in range(0, BN, 2):
        ahead = tl.minimum(k + 2, BN - 2)
        next1, next2 = tl.load(DS + ahead * BM + i), tl.load(DS + (ahead + 1) * BM + i)
        next3, next4 = tl.load(at + ahead * DP), tl.load(at + (ahead + 1) * DP)
        if CORE == 1:
            p1, p2 = one_plus(x, y1, MODE), one_plus(x, y2, MODE)
            both = reciprocal(p1 * p2, INTERPRETED)
            r1, r2 = both * p2, both * p1
            acc += d1 * (r1 - r1 * r1)
            acc += d2 * (r2 - r2 * r2)
            if READ:  # half of tanh: the sum of 1 and of r apart would cancel
                read += d1 * (0.5 - r1)
                read += d2 * (0.5 - r2)
        else:
            z1, z2 = x + y1, x + y2
            below = -1.0 if CORE == 2 else 0.0
            acc += d1 * tl.where(z1 > 0, 1.0, tl.where(z1 < 0, -1.0, below))
            acc += d2 * tl.where(z2 > 0, 1.0, tl.where(z2 < 0, -1.0, below))
            if READ:
                read += d1 * tl.abs(z1)
                read += d2 * tl.abs(z2)
        d1, d2, y1, y2 = next1, next2, next3, next4
    return acc, read


@triton.jit
def eighths(BM: tl.constexpr):
    """0 to BM - 1 as (BM / 8, 1, 8).

    A thread holds neighbours of the middle axis and of the first: a patch of pairs instead of a line, which takes a
    third of the loads.
    """
    return tl.reshape(tl.arange(0, BM), [BM // 8, 1, 8])


@triton.jit
def pulls(CORE: tl.constexpr, BM: tl.constexpr, DP: tl.constexpr):
    """Zeros to add to what vectors receive."""
    if CORE == 0:
        return tl.zeros([BM, DP], tl.float32)
    else:
        return tl.zeros([BM // 8, DP, 8], tl.float32)


@triton.jit
def received(
    x, sums, READOUT, bend, linear, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, CORE: tl.constexpr
):  # fmt: skip
    """What vectors receive in all: x sum_j ds_j h(x + y_j), less the readout, and the sums of ds; of a dot, bend x."""
    if CORE == 0:
        return x * bend
    else:
        d = tl.reshape(tl.arange(0, DP), [1, DP, 1])
        r = tl.load(READOUT + d, mask=d < D, other=0.0)
        return r * (bend * x + linear * tl.reshape(sums, [BM // 8, 1, 8]))


@triton.jit
def put_pulls(base, i0, count, x, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, CORE: tl.constexpr, more):
    """What vectors receive, into a contiguous table (count, D), beside what stands there already where there is more.

    The thread that adds is the one that wrote.
    """
    if CORE == 0:
        i, d = (i0 + tl.arange(0, BM))[:, None], tl.arange(0, DP)[None, :]
    else:
        i, d = i0 + eighths(BM), tl.reshape(tl.arange(0, DP), [1, DP, 1])
    at, real = base + i.to(tl.int64) * D + d, (i < count) & (d < D)
    if more:
        x += tl.load(at, mask=real, other=0.0)
    tl.store(at, x.to(base.dtype.element_ty), mask=real)


@triton.jit
def through(DS, x, BM: tl.constexpr, BN: tl.constexpr):
    """A tile (BM, BN) written to a program's own memory and read again, in whatever layout its next use likes."""
    at = DS + tl.arange(0, BN)[None, :] * BM + tl.arange(0, BM)[:, None]
    tl.store(at, x)
    tl.debug_barrier()
    return tl.load(at)


@triton.jit
def pull_pairs(
    ds, DS, Y, mode, x, first, acc, read, CORE: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    READ: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """acc (BM / 8, DP, 8) += sum_j ds_j h(x + y_j); read += sum_j ds_j k(x + y_j).

    Of tanh, h is r - r^2 with r = 1 / (1 + exp(2 (x + y))) and k is 1/2 - r; of |x + y|, h is the sign and k itself.

    Each thread holds some numbers of acc and walks along the keys, so nothing is summed across threads. The scores'
    gradient, which other threads hold, goes through DS (BN, BM), memory of this program alone.
    """
    tl.debug_barrier()  # what stood there has been read
    through(DS, ds, BM, BN)
    if CORE > 1 or mode == 0:
        acc, read = _pull_pairs(DS, Y, x, first, acc, read, CORE, 0, DP, BM, BN, READ, INTERPRETED)
    elif mode == 1:
        acc, read = _pull_pairs(DS, Y, x, first, acc, read, CORE, 1, DP, BM, BN, READ, INTERPRETED)
    else:
        acc, read = _pull_pairs(DS, Y, x, first, acc, read, CORE, 2, DP, BM, BN, READ, INTERPRETED)
    return acc, read
