"""Pairs: sum_d r_d act(x_d + y_d) of tiles, and what its gradient hands back to the vectors.

CORE   1 = tanh by reciprocals: sum_d r_d / (1 + exp(2 (x_d + y_d))); four fractions are added before one division
       2 = sum_d r_d |x_d + y_d|, whose slope at 0 is that of the negative side (leaky ReLU); 3 = the same, slope 0 at 0
MODE   of tanh, one a head: 0 = exp(2x) exp(2y) as it is, for |x| + |y| < 14; 1 = bounded, for |x|, |y| < 43;
       2 = exp(2 (x + y)), for any; tables then hold exponents instead of exponentials

What is read is made in `triton_tables`; R (width + 1) ends with a factor of the score. A pair and feature of tanh takes
3 FP32 instructions and a quarter of a reciprocal in scores, 5 and a half in what is handed back.
"""

import triton
import triton.language as tl

PAD = tl.constexpr(128)  # places of a block of a table
SCORED, MOST = tl.constexpr(40.0), tl.constexpr(60.0)  # largest exponents: products of four and of two are finite


@triton.jit
def reciprocal(x, INTERPRETED: tl.constexpr):
    if INTERPRETED:  # the interpreter has no assembly
        return 1.0 / x
    else:
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def eighths(BM: tl.constexpr):
    """0 to BM - 1 as (BM / 8, 1, 8).

    A thread holds neighbours of the middle axis and of the first: a patch of pairs instead of a line, which takes a
    third of the loads.
    """
    return tl.reshape(tl.arange(0, BM), [BM // 8, 1, 8])


@triton.jit
def flat(s, BM: tl.constexpr, BN: tl.constexpr):
    """(BM / 8, BN, 8) as (BM, BN)"""
    return tl.reshape(tl.permute(s, (0, 2, 1)), [BM, BN])


@triton.jit
def deep(x, BM: tl.constexpr, BN: tl.constexpr):
    """(BM, BN) as (BM / 8, BN, 8)"""
    return tl.permute(tl.reshape(x, [BM // 8, 8, BN]), (0, 2, 1))


@triton.jit
def exponential(u, w, MODE: tl.constexpr, LIMIT: tl.constexpr):
    """exp(2 (x + y)), at most 2^LIMIT where it is bounded"""
    if MODE == 0:
        return u * w
    elif MODE == 1:
        return tl.minimum(u * w, 2.0**LIMIT)
    else:
        return tl.exp2(tl.minimum(u + w, LIMIT))


@triton.jit
def one_plus(u, w, MODE: tl.constexpr):
    """1 + exp(2 (x + y))"""
    return exponential(u, w, MODE, MOST) + 1.0


@triton.jit
def _parted(u, w, share, MODE: tl.constexpr):
    """(1 + exp(2 (x + y))) share; the table of the queries has the share in it where nothing is bounded"""
    if MODE == 0:
        return u * w + share
    else:
        return exponential(u, w, MODE, SCORED) * share + share


@triton.jit
def _four(p1, p2, p3, p4, INTERPRETED: tl.constexpr):
    """The sum of four reciprocals, by one."""
    a, b = p1 * p2, p3 * p4
    return ((p1 + p2) * b + (p3 + p4) * a) * reciprocal(a * b, INTERPRETED)


@triton.jit
def _pairs(
    X, Y, R, x, y, WIDTH: tl.constexpr, CORE: tl.constexpr, MODE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    X += x // PAD * ((WIDTH - 1) * PAD) + x + eighths(BM)
    Y += y // PAD * ((WIDTH - 1) * PAD) + y + tl.reshape(tl.arange(0, BN), [1, BN, 1])
    s = tl.zeros([BM // 8, BN, 8], tl.float32)
    for d in range(0, WIDTH, 4):
        x1, x2, x3, x4 = tl.load(X), tl.load(X + PAD), tl.load(X + 2 * PAD), tl.load(X + 3 * PAD)
        y1, y2, y3, y4 = tl.load(Y), tl.load(Y + PAD), tl.load(Y + 2 * PAD), tl.load(Y + 3 * PAD)
        r1, r2, r3, r4 = tl.load(R + d), tl.load(R + d + 1), tl.load(R + d + 2), tl.load(R + d + 3)
        if CORE == 1:
            s += _four(_parted(x1, y1, r1, MODE), _parted(x2, y2, r2, MODE), _parted(x3, y3, r3, MODE),
                       _parted(x4, y4, r4, MODE), INTERPRETED)  # fmt: skip
        else:
            s += r1 * tl.abs(x1 + y1)
            s += r2 * tl.abs(x2 + y2)
            s += r3 * tl.abs(x3 + y3)
            s += r4 * tl.abs(x4 + y4)
        X += 4 * PAD
        Y += 4 * PAD
    return s * tl.load(R + WIDTH)


@triton.jit
def pair_scores(
    X, Y, R, mode, x, y, WIDTH: tl.constexpr, CORE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """(BM / 8, BN, 8) of the places from x and y on, from tables that lie across."""
    s = tl.zeros([BM // 8, BN, 8], tl.float32)
    turn = 0
    while turn < 1:  # one turn, through which no layout travels: what weights are read in stays out of this
        if CORE > 1 or mode == 0:
            s = _pairs(X, Y, R, x, y, WIDTH, CORE, 0, BM, BN, INTERPRETED)
        elif mode == 1:
            s = _pairs(X, Y, R, x, y, WIDTH, CORE, 1, BM, BN, INTERPRETED)
        else:
            s = _pairs(X, Y, R, x, y, WIDTH, CORE, 2, BM, BN, INTERPRETED)
        turn += 1
    return s


@triton.jit
def through(DS, x, BM: tl.constexpr, BN: tl.constexpr):
    """A tile (BM, BN) written to a program's own memory and read again, in whatever layout its next use likes."""
    at = DS + tl.arange(0, BN)[None, :] * BM + tl.arange(0, BM)[:, None]
    tl.store(at, x)
    tl.debug_barrier()
    return tl.load(at)


@triton.jit
def _pull_two(
    acc, read, x, d1, d2, y1, y2, CORE: tl.constexpr, MODE: tl.constexpr, READ: tl.constexpr, INTERPRETED: tl.constexpr
):  # fmt: skip
    """Two keys more."""
    if CORE == 1:
        p1, p2 = one_plus(x, y1, MODE), one_plus(x, y2, MODE)
        both = reciprocal(p1 * p2, INTERPRETED)
        if READ:  # k, half of tanh, as it is: sums of 1 and of r apart would cancel
            k1, k2 = 0.5 - both * p2, 0.5 - both * p1
            read += d1 * k1
            read += d2 * k2
            acc += d1 * (0.25 - k1 * k1)
            acc += d2 * (0.25 - k2 * k2)
        else:
            r1, r2 = both * p2, both * p1
            acc += d1 * (r1 - r1 * r1)
            acc += d2 * (r2 - r2 * r2)
    else:
        z1, z2 = x + y1, x + y2
        below = -1.0 if CORE == 2 else 0.0
        acc += d1 * tl.where(z1 > 0, 1.0, tl.where(z1 < 0, -1.0, below))
        acc += d2 * tl.where(z2 > 0, 1.0, tl.where(z2 < 0, -1.0, below))
        if READ:
            read += d1 * tl.abs(z1)
            read += d2 * tl.abs(z2)
    return acc, read


@triton.jit
def _pull_pairs(
    DS, Y, x, first, acc, read, CORE: tl.constexpr, MODE: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, READ: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    DS += eighths(BM)
    Y += first * DP + tl.reshape(tl.arange(0, DP), [1, DP, 1])  # within a head
    for _ in range(0, BN, 4):
        d1, d2, d3, d4 = tl.load(DS), tl.load(DS + BM), tl.load(DS + 2 * BM), tl.load(DS + 3 * BM)
        y1, y2, y3, y4 = tl.load(Y), tl.load(Y + DP), tl.load(Y + 2 * DP), tl.load(Y + 3 * DP)
        acc, read = _pull_two(acc, read, x, d1, d2, y1, y2, CORE, MODE, READ, INTERPRETED)
        acc, read = _pull_two(acc, read, x, d3, d4, y3, y4, CORE, MODE, READ, INTERPRETED)
        DS += 4 * BM
        Y += 4 * DP
    return acc, read


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
