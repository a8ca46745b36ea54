"""What the dense kernels are made of: products of tiles, averages, what scores hand back to their vectors.

CORE   0 = dot, scale x . y; others are pairs (`common/pair_scores`)
"""

import triton
import triton.language as tl

from ..common.pair_scores import HELD, own_features, own_places


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
def parted(x):
    """Three numbers of bfloat16 whose sum is x."""
    x1 = x.to(tl.bfloat16)
    rest = x - x1.to(tl.float32)
    x2 = rest.to(tl.bfloat16)
    return x1, x2, (rest - x2.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def averaged_parts(
    acc,
    p1,
    p2,
    p3,
    V,
    j,
    total,
    parts,
    D: tl.constexpr,
    DP: tl.constexpr,
    WHOLE: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """acc + (p v)^T in fp32: of p (rows, columns) and of v three parts in bfloat16, six products, the smallest first.

    The parts of v lie in memory already: what they are made of does not pass through registers. The products of a tile
    are summed apart from acc: a tensor core cuts off what a sum has no bits for, always towards 0, and of all keys that
    would come together.
    """
    p1, p2, p3 = tl.trans(p1), tl.trans(p2), tl.trans(p3)
    v = tl.trans(rows_of(V + 2 * parts, j, total, D, DP, WHOLE))
    found = product(v, p1, "ieee", INTERPRETED)
    v = tl.trans(rows_of(V + parts, j, total, D, DP, WHOLE))
    found += product(v, p2, "ieee", INTERPRETED)
    found += product(v, p1, "ieee", INTERPRETED)
    v = tl.trans(rows_of(V, j, total, D, DP, WHOLE))
    found += product(v, p3, "ieee", INTERPRETED)
    found += product(v, p2, "ieee", INTERPRETED)
    found += product(v, p1, "ieee", INTERPRETED)
    return acc + found


@triton.jit
def product_of_parts(
    X,
    i,
    own_total,
    own_parts,
    Y,
    j,
    other_total,
    other_parts,
    D: tl.constexpr,
    DP: tl.constexpr,
    WHOLE: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """(x y^T)^T in fp32, of tables in three parts; a tensor core sums 64 columns at most, as in `averaged_parts`."""
    BLOCK_D: tl.constexpr = min(DP, 64)
    found = _product_of_some(
        X, i, own_total, own_parts, Y, j, other_total, other_parts, 0, D, BLOCK_D, WHOLE, INTERPRETED
    )
    for first in tl.static_range(BLOCK_D, DP, BLOCK_D):
        found += _product_of_some(
            X, i, own_total, own_parts, Y, j, other_total, other_parts, first, D, BLOCK_D, WHOLE, INTERPRETED
        )
    return found


@triton.jit
def _product_of_some(
    X,
    i,
    own_total,
    own_parts,
    Y,
    j,
    other_total,
    other_parts,
    first: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    WHOLE: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    x1 = tl.trans(columns_of(X, i, own_total, first, D, BLOCK_D, False))
    x2 = tl.trans(columns_of(X + own_parts, i, own_total, first, D, BLOCK_D, False))
    x3 = tl.trans(columns_of(X + 2 * own_parts, i, own_total, first, D, BLOCK_D, False))
    y = columns_of(Y + 2 * other_parts, j, other_total, first, D, BLOCK_D, WHOLE)
    found = product(y, x1, "ieee", INTERPRETED)
    y = columns_of(Y + other_parts, j, other_total, first, D, BLOCK_D, WHOLE)
    found += product(y, x2, "ieee", INTERPRETED)
    found += product(y, x1, "ieee", INTERPRETED)
    y = columns_of(Y, j, other_total, first, D, BLOCK_D, WHOLE)
    found += product(y, x3, "ieee", INTERPRETED)
    found += product(y, x2, "ieee", INTERPRETED)
    found += product(y, x1, "ieee", INTERPRETED)
    return found


@triton.jit
def averages(CORE: tl.constexpr, BLOCK_M: tl.constexpr, DVP: tl.constexpr):
    """Zeros to add averages to."""
    if CORE == 0:
        return tl.zeros([BLOCK_M, DVP], tl.float32)
    else:
        return tl.zeros([DVP, BLOCK_M], tl.float32)


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
    return columns_of(base, i, count, 0, D, DP, WHOLE)


@triton.jit
def columns_of(base, i, count, first: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, WHOLE: tl.constexpr):
    """(rows, BLOCK_D) of it, from the first column on."""
    d = first + tl.arange(0, BLOCK_D)
    at = base + i.to(tl.int64)[:, None] * D + d[None, :]
    if WHOLE and first + BLOCK_D <= D:
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
def pulls(CORE: tl.constexpr, BLOCK_M: tl.constexpr, DP: tl.constexpr):
    """Zeros to add to what vectors receive."""
    if CORE == 0:
        return tl.zeros([BLOCK_M, DP], tl.float32)
    else:
        return tl.zeros([DP, BLOCK_M // HELD, HELD], tl.float32)


@triton.jit
def received(
    x, sums, READOUT, bend, linear, D: tl.constexpr, DP: tl.constexpr, BLOCK_M: tl.constexpr, CORE: tl.constexpr
):
    """What vectors receive in all: x sum_j ds_j h(x + y_j), less the readout, and the sums of ds; of a dot, bend x."""
    if CORE == 0:
        return x * bend
    else:
        d = own_features(DP)
        r = tl.load(READOUT + d, mask=d < D, other=0.0)
        return r * (bend * x + linear * tl.reshape(sums, [1, BLOCK_M // HELD, HELD]))


@triton.jit
def put_pulls(base, i0, count, x, D: tl.constexpr, DP: tl.constexpr, BLOCK_M: tl.constexpr, CORE: tl.constexpr, more):
    """What vectors receive, into a contiguous table (count, D), beside what stands there already where there is more.

    The thread that adds is the one that wrote.
    """
    if CORE == 0:
        i, d = (i0 + tl.arange(0, BLOCK_M))[:, None], tl.arange(0, DP)[None, :]
    else:
        i, d = i0 + own_places(BLOCK_M), own_features(DP)
    at, real = base + i.to(tl.int64) * D + d, (i < count) & (d < D)
    if more:
        x += tl.load(at, mask=real, other=0.0)
    tl.store(at, x.to(base.dtype.element_ty), mask=real)
