"""Pairs: sum_d r_d act(x_d + y_d) of tiles, and what its gradient hands back to the vectors.

CORE   1 = tanh by reciprocals: sum_d r_d / (1 + exp(2 (x_d + y_d))); four fractions are added before one division
       2 = sum_d r_d |x_d + y_d|, whose slope at 0 is that of the negative side (leaky ReLU); 3 = the same, slope 0 at 0
MODE   of tanh, one a head: 0 = exp(2x) exp(2y) as it is, for |x| + |y| < 14; 1 = bounded, for |x|, |y| < 43;
       2 = exp(2 (x + y)), for any; tables then hold exponents instead of exponentials

Tables are made in `pair_tables`; R (width + 1) ends with a factor of the score. A pair and feature of tanh takes
3 FP32 instructions and a quarter of a reciprocal in scores, 7 and a half in what is handed back to both sides.
"""

import triton
import triton.language as tl

PAD = tl.constexpr(128)  # places of a block of a table
HELD = tl.constexpr(16)  # places of the own side that a thread holds of one feature, where gradients are summed
MAX_EXPONENT_OF_FOUR, MAX_EXPONENT_OF_TWO = tl.constexpr(40.0), tl.constexpr(60.0)  # their products are finite


@triton.jit
def reciprocal(x, INTERPRETED: tl.constexpr):
    if INTERPRETED:  # the interpreter has no assembly
        return 1.0 / x
    else:
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def beside(x, DEEP: tl.constexpr):
    """Numbers of rows, broadcast over scores: (BLOCK_M,) over (BLOCK_M, BLOCK_N), or (T, BLOCK_M / T) over patches."""
    if DEEP:
        return x[:, None, None, :]
    else:
        return x[:, None]


@triton.jit
def above(x, DEEP: tl.constexpr):
    """Numbers of columns, broadcast over scores: (BLOCK_N,), or (4, BLOCK_N / 4)."""
    if DEEP:
        return x[None, :, :, None]
    else:
        return x[None, :]


@triton.jit
def places_in(B: tl.constexpr, T: tl.constexpr):
    """0 to B - 1 as (T, B / T), whose first axis lies in one thread: four neighbours are read at once."""
    return tl.arange(0, T)[:, None] + tl.arange(0, B // T)[None, :] * T


@triton.jit
def row_of_places(x, B: tl.constexpr):
    """(T, B / T) as (B,)"""
    return tl.reshape(tl.permute(x, (1, 0)), [B])


@triton.jit
def flat(s, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """(T, 4, BLOCK_N / 4, BLOCK_M / T), a patch of T rows and 4 columns in each thread, as (BLOCK_M, BLOCK_N)"""
    return tl.reshape(tl.permute(s, (3, 0, 2, 1)), [BLOCK_M, BLOCK_N])


@triton.jit
def deep(x, T: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """(BLOCK_M, BLOCK_N) as (T, 4, BLOCK_N / 4, BLOCK_M / T)"""
    return tl.permute(tl.reshape(x, [BLOCK_M // T, T, BLOCK_N // 4, 4]), (1, 3, 2, 0))


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
    return exponential(u, w, MODE, MAX_EXPONENT_OF_TWO) + 1.0


@triton.jit
def _parted(u, w, share, MODE: tl.constexpr):
    """(1 + exp(2 (x + y))) share; the table of the queries has the share in it where nothing is bounded"""
    if MODE == 0:
        return u * w + share
    else:
        return exponential(u, w, MODE, MAX_EXPONENT_OF_FOUR) * share + share


@triton.jit
def _four(p1, p2, p3, p4, INTERPRETED: tl.constexpr):
    """The sum of four reciprocals, by one."""
    a, b = p1 * p2, p3 * p4
    return ((p1 + p2) * b + (p3 + p4) * a) * reciprocal(a * b, INTERPRETED)


@triton.jit
def _pairs(
    X,
    Y,
    R,
    x,
    y,
    WIDTH: tl.constexpr,
    CORE: tl.constexpr,
    MODE: tl.constexpr,
    T: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    X += x // PAD * ((WIDTH - 1) * PAD) + x + beside(places_in(BLOCK_M, T), True)
    Y += y // PAD * ((WIDTH - 1) * PAD) + y + above(places_in(BLOCK_N, 4), True)
    s = tl.zeros([T, 4, BLOCK_N // 4, BLOCK_M // T], tl.float32)
    for d in range(0, WIDTH, 4):
        x1, x2, x3, x4 = tl.load(X), tl.load(X + PAD), tl.load(X + 2 * PAD), tl.load(X + 3 * PAD)
        y1, y2, y3, y4 = tl.load(Y), tl.load(Y + PAD), tl.load(Y + 2 * PAD), tl.load(Y + 3 * PAD)
        r1, r2, r3, r4 = tl.load(R + d), tl.load(R + d + 1), tl.load(R + d + 2), tl.load(R + d + 3)
        if CORE == 1:
            s += _four(
                _parted(x1, y1, r1, MODE),
                _parted(x2, y2, r2, MODE),
                _parted(x3, y3, r3, MODE),
                _parted(x4, y4, r4, MODE),
                INTERPRETED,
            )
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
    X,
    Y,
    R,
    mode,
    x,
    y,
    WIDTH: tl.constexpr,
    CORE: tl.constexpr,
    T: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """(T, 4, BLOCK_N / 4, BLOCK_M / T) of the places from x and y on, from tables that lie across."""
    s = tl.zeros([T, 4, BLOCK_N // 4, BLOCK_M // T], tl.float32)
    turn = 0
    while turn < 1:  # one turn, through which no layout travels: what weights are read in stays out of this
        if CORE > 1 or mode == 0:
            s = _pairs(X, Y, R, x, y, WIDTH, CORE, 0, T, BLOCK_M, BLOCK_N, INTERPRETED)
        elif mode == 1:
            s = _pairs(X, Y, R, x, y, WIDTH, CORE, 1, T, BLOCK_M, BLOCK_N, INTERPRETED)
        else:
            s = _pairs(X, Y, R, x, y, WIDTH, CORE, 2, T, BLOCK_M, BLOCK_N, INTERPRETED)
        turn += 1
    return s


@triton.jit
def through(DS, x, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """A tile (BLOCK_M, BLOCK_N) through a program's own memory, into whatever layout its next use likes."""
    at = DS + tl.arange(0, BLOCK_N)[None, :] * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    tl.store(at, x)
    tl.debug_barrier()
    return tl.load(at)


@triton.jit
def fractions(p, INTERPRETED: tl.constexpr):
    """1 / p; two neighbours share one reciprocal."""
    if INTERPRETED:
        return 1.0 / p
    else:
        return tl.inline_asm_elementwise(
            """{
            .reg .f32 r;
            mul.f32 r, $2, $3;
            rcp.approx.ftz.f32 r, r;
            mul.f32 $0, r, $3;
            mul.f32 $1, r, $2;
            }""",
            "=f,=f,f,f",
            [p],
            tl.float32,
            True,
            2,
        )


@triton.jit
def own_places(BLOCK_M: tl.constexpr):
    """0 to BLOCK_M - 1 as (1, BLOCK_M / HELD, HELD).

    A thread reads HELD neighbours of one feature: sums over its places are sums of its registers.
    """
    return tl.reshape(tl.arange(0, BLOCK_M), [1, BLOCK_M // HELD, HELD])


@triton.jit
def own_features(DP: tl.constexpr):
    """0 to DP - 1 as (DP, 1, 1), reshaped so that no load in fours puts neighbours into one thread."""
    return tl.reshape(tl.arange(0, DP), [DP, 1, 1])


@triton.jit
def _pull_one(
    acc,
    read,
    x,
    ds,
    y,
    CORE: tl.constexpr,
    MODE: tl.constexpr,
    READ: tl.constexpr,
    BOTH: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One place of the other side more; what this place receives, a part of it in each thread."""
    if CORE == 1:
        r = fractions(one_plus(x, y, MODE), INTERPRETED)
        if READ:  # k, half of tanh, as it is: sums of 1 and of r apart would cancel
            k = 0.5 - r
            h = ds * (0.25 - k * k)
        else:
            k = r
            h = ds * (r - r * r)
    else:
        z = x + y
        k = tl.abs(z)
        h = ds * tl.where(z > 0, 1.0, tl.where(z < 0, -1.0, -1.0 if CORE == 2 else 0.0))
    acc += h
    if READ:
        read += tl.sum(ds * k, 2)
    return acc, read, tl.sum(h, 2) if BOTH else read


@triton.jit
def _pull_pairs(
    DS,
    Y,
    OTHERS,
    x,
    first,
    acc,
    read,
    CORE: tl.constexpr,
    MODE: tl.constexpr,
    DP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    READ: tl.constexpr,
    BOTH: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    GROUPS: tl.constexpr = BLOCK_M // HELD
    DS += tl.arange(0, GROUPS)[None, :, None] * HELD + tl.arange(0, HELD)[None, None, :]
    Y += first * DP + own_features(DP)  # within a head
    OTHERS += tl.reshape(tl.arange(0, GROUPS), [1, GROUPS]) * DP + tl.reshape(tl.arange(0, DP), [DP, 1])
    d1, y1, y2 = tl.load(DS), tl.load(Y), tl.load(Y + DP)
    for j in range(0, BLOCK_N, 2):  # what is read is used a place later: nobody waits for it
        ahead = tl.where(j < BLOCK_N - 2, 2, 0)
        Y += ahead * DP
        d2, y3, y4 = tl.load(DS + BLOCK_M), tl.load(Y), tl.load(Y + DP)
        acc, read, other = _pull_one(acc, read, x, d1, y1, CORE, MODE, READ, BOTH, INTERPRETED)
        if BOTH:
            tl.store(OTHERS, other)
        DS += ahead * BLOCK_M
        d1 = tl.load(DS)
        acc, read, other = _pull_one(acc, read, x, d2, y2, CORE, MODE, READ, BOTH, INTERPRETED)
        if BOTH:
            tl.store(OTHERS + GROUPS * DP, other)
            OTHERS += 2 * GROUPS * DP
        y1, y2 = y3, y4
    return acc, read


@triton.jit
def pull_pairs(
    ds,
    DS,
    X,
    Y,
    OTHERS,
    mode,
    i0,
    first,
    acc,
    read,
    CORE: tl.constexpr,
    DP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    READ: tl.constexpr,
    BOTH: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """acc (DP, BLOCK_M / HELD, HELD) += sum_j ds_j h(x + y_j); read (DP, BLOCK_M / HELD) += sum_j ds_j k(x + y_j).

    Of tanh, h is r - r^2 with r = 1 / (1 + exp(2 (x + y))) and k is 1/2 - r; of |x + y|, h is the sign and k itself.

    Each thread holds some numbers of acc and walks along the keys, so nothing is summed across threads. The scores'
    gradient, which other threads hold, goes through DS (BLOCK_N, BLOCK_M), memory of this program alone. BOTH: OTHERS
    (BLOCK_N, BLOCK_M / HELD, DP) is what the other side receives, in parts.
    """
    tl.debug_barrier()  # what stood there has been read
    through(DS, ds, BLOCK_M, BLOCK_N)
    x = tl.load(X + (i0 + own_places(BLOCK_M)) * DP + own_features(DP))  # anew for each tile: scores want the registers
    if CORE > 1 or mode == 0:
        acc, read = _pull_pairs(
            DS, Y, OTHERS, x, first, acc, read, CORE, 0, DP, BLOCK_M, BLOCK_N, READ, BOTH, INTERPRETED
        )
    elif mode == 1:
        acc, read = _pull_pairs(
            DS, Y, OTHERS, x, first, acc, read, CORE, 1, DP, BLOCK_M, BLOCK_N, READ, BOTH, INTERPRETED
        )
    else:
        acc, read = _pull_pairs(
            DS, Y, OTHERS, x, first, acc, read, CORE, 2, DP, BLOCK_M, BLOCK_N, READ, BOTH, INTERPRETED
        )
    return acc, read


@triton.jit
def add_others(OTHERS, TOTAL, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DP: tl.constexpr):
    """TOTAL (BLOCK_N, DP), which this program alone adds to, += OTHERS (BLOCK_N, BLOCK_M / HELD, DP) over its parts."""
    GROUPS: tl.constexpr = BLOCK_M // HELD
    tl.debug_barrier()  # all of it is written
    j, d = tl.arange(0, BLOCK_N)[:, None], tl.arange(0, DP)[None, :]
    total = tl.load(TOTAL + j * DP + d)
    for part in tl.static_range(GROUPS):
        total += tl.load(OTHERS + (j * GROUPS + part) * DP + d)
    tl.store(TOTAL + j * DP + d, total)
