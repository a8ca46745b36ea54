"""What is read off a map: walks over the tiles of Q K^T, on tensor cores, nothing of n x m written unless it is asked.

Operations: 2 n m d and n m exponentials a head and walk; bytes: 2 (n + m) d b, and what is written. The first walk
leaves the logarithm of each row's sum, if it is not known; each other adds f(s - tau) up: into cells of C x C, along
rows or along columns. A tile holds whole cells and a program whole rows, so each is written once and no atomic is used.
Numbers that change from read to read are not specialised: no length and no place in a map compiles a kernel anew.
"""

import triton
import triton.language as tl

from .triton_dense_weights import weights
from .triton_launch import launched
from .triton_ranges import CHANGING, allowed, length_of, partial_tile, partial_tiles, tiles_of

LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _vectors(X, base, i, count, D: tl.constexpr, DP: tl.constexpr, WHOLE: tl.constexpr):
    """(rows, DP) of the table at X + base, (count, D); WHOLE: all of them are there."""
    d = tl.arange(0, DP)
    at = X + base + i.to(tl.int64)[:, None] * D + d[None, :]
    if WHOLE and D == DP:
        return tl.load(at)
    else:
        return tl.load(at, mask=(i < count)[:, None] & (d < D)[None, :], other=0.0)


@triton.jit
def _product(x, y, WIDE: tl.constexpr):
    """x . y of (rows, DP) and (columns, DP)."""
    if WIDE:  # the interpreter's product of bfloat16 is wrong
        return tl.dot(x.to(tl.float32), tl.trans(y).to(tl.float32), input_precision="ieee")
    elif x.dtype == tl.float32:  # three parts of 8 bits, six products: as exact as fp32, on tensor cores
        return tl.dot(x, tl.trans(y), input_precision="bf16x6")
    else:
        return tl.dot(x, tl.trans(y))


@triton.jit
def _biased(s, scale, BIAS, base, j, m, unit, BIASED: tl.constexpr):
    """Scores whose scale is still to come, and it; with a bias of keys j (in a row) both are in already."""
    if BIASED:
        return s * scale + tl.load(BIAS + base + j, mask=j < m, other=0.0)[None, :] * unit, 1.0
    else:
        return s, scale


@triton.jit
def _keys(i, j, n, length, m, left, right, KEEP, kept, KEPT: tl.constexpr):
    """Which pairs of rows i and keys j may meet."""
    may = allowed(i[:, None], j[None, :], n, length, left, right)
    if KEPT:
        may = may & (tl.load(KEEP + kept + j, mask=j < m, other=0) > 0)[None, :]
    return may


@triton.jit
def _place(g, first_head, heads, LENGTHS, m, keep_b, keep_h, PADDED: tl.constexpr):
    """Of a head of this map: how many keys there are to see, and where its mask of keys stands."""
    batch, head = (g + first_head) // heads, (g + first_head) % heads
    return length_of(LENGTHS, batch, m, PADDED), batch * keep_b + head * keep_h


@triton.jit
def _tau_of(TAU, OWN, at, real, unit, OWNED: tl.constexpr):
    """tau less what a row adds to all its scores, in the unit of the scores."""
    tau = tl.load(TAU + at, mask=real, other=float("inf"))
    if OWNED:
        tau -= tl.load(OWN + at, mask=real, other=0.0)
    return tau * unit


@triton.jit
def _summed(top, total, s, scale):
    """One more tile of scores in log2 sum exp2, kept as the largest and a sum relative to it."""
    higher = tl.maximum(top, tl.max(s, 1) * scale)
    safe = tl.where(higher == -float("inf"), 0.0, higher)
    total = total * tl.exp2(top - safe) + tl.sum(tl.exp2(s * scale - safe[:, None]), 1)
    return higher, total


@launched
@triton.jit(do_not_specialize=CHANGING)
def tau_kernel(
    Q, K, BIAS, TAU, LENGTHS, KEEP, n, m, left, right, scale, unit, first_head, heads, keep_b, keep_h,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BIASED: tl.constexpr, PADDED: tl.constexpr,
    KEPT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """log sum exp of each row's scores; +inf for an empty row. scale is positive and carries unit = log2(e).

    The last rows come first: under causality they have the most to do.
    """
    g = tl.program_id(1).to(tl.int64)
    i0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    i = i0 + tl.arange(0, BM)
    length, kept = _place(g, first_head, heads, LENGTHS, m, keep_b, keep_h, PADDED)
    q = _vectors(Q, g * n * D, i, n, D, DP, False)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BM, BN, KEPT)
    for at in range(inner, outer, BN):
        j = at + tl.arange(0, BN)
        s = _product(q, _vectors(K, g * m * D, j, m, D, DP, True), WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        top, total = _summed(top, total, s, by)
    for turn in range(partial_tiles(start, inner, outer, stop, BN)):
        j = partial_tile(turn, start, inner, outer, BN) + tl.arange(0, BN)
        s = _product(q, _vectors(K, g * m * D, j, m, D, DP, False), WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        may = _keys(i, j, n, length, m, left, right, KEEP, kept, KEPT)
        top, total = _summed(top, total, tl.where(may, s, -float("inf")), by)
    tl.store(TAU + g * n + i, tl.where(total > 0, top + tl.log2(total), float("inf")) * LN2, mask=i < n)


@triton.jit
def _pooled(w, MASS, PEAK, at, real, BM: tl.constexpr, BN: tl.constexpr, C: tl.constexpr):
    parts = tl.reshape(w, (BM // C, C, BN // C, C))
    tl.store(MASS + at, tl.sum(tl.sum(parts, 3), 1), mask=real)
    tl.store(PEAK + at, tl.max(tl.max(parts, 3), 1), mask=real)


@launched
@triton.jit(do_not_specialize=CHANGING)
def cells_kernel(
    Q, K, BIAS, OWN, TAU, LENGTHS, KEEP, MASS, PEAK, COUNT, n, m, rows, columns, left, right, scale, unit, power,
    first_head, heads, keep_b, keep_h, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    C: tl.constexpr, ALIGN: tl.constexpr, BIASED: tl.constexpr, OWNED: tl.constexpr, PADDED: tl.constexpr,
    KEPT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Sum and largest of the weights of each cell, and how many pairs may meet there."""
    g = tl.program_id(1).to(tl.int64)
    i0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    i = i0 + tl.arange(0, BM)
    length, kept = _place(g, first_head, heads, LENGTHS, m, keep_b, keep_h, PADDED)
    q = _vectors(Q, g * n * D, i, n, D, DP, False)
    tau = _tau_of(TAU, OWN, g * n + i, i < n, unit, OWNED)[:, None]
    row = i0 // C + tl.arange(0, BM // C)
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BM, BN, KEPT)
    line = (g * rows + row.to(tl.int64)[:, None]) * columns
    for at in range(inner, outer, BN):
        j = at + tl.arange(0, BN)
        s = _product(q, _vectors(K, g * m * D, j, m, D, DP, True), WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        column = at // C + tl.arange(0, BN // C)
        real = (row < rows)[:, None] & (column < columns)[None, :]
        _pooled(weights(s * by - tau, 0.0, power, ALIGN, WIDE), MASS, PEAK, line + column[None, :], real, BM, BN, C)
        tl.store(COUNT + line + column[None, :], tl.full([BM // C, BN // C], C * C, tl.int32), mask=real)
    for turn in range(partial_tiles(start, inner, outer, stop, BN)):
        at = partial_tile(turn, start, inner, outer, BN)
        j = at + tl.arange(0, BN)
        s = _product(q, _vectors(K, g * m * D, j, m, D, DP, False), WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        may = _keys(i, j, n, length, m, left, right, KEEP, kept, KEPT)
        column = at // C + tl.arange(0, BN // C)
        real = (row < rows)[:, None] & (column < columns)[None, :]
        w = tl.where(may, weights(s * by - tau, 0.0, power, ALIGN, WIDE), 0.0)
        _pooled(w, MASS, PEAK, line + column[None, :], real, BM, BN, C)
        count = tl.sum(tl.sum(tl.reshape(may.to(tl.int32), (BM // C, C, BN // C, C)), 3), 1)
        tl.store(COUNT + line + column[None, :], count, mask=real)


@triton.jit
def _spread(z, power, ALIGN: tl.constexpr, WIDE: tl.constexpr):
    """sum_j w log2 w of each row, where w = f(z)."""
    w = weights(z, 0.0, power, ALIGN, WIDE)
    if ALIGN != 0:
        z = tl.log2(tl.maximum(w, 1e-37))
    return tl.sum(tl.where(w > 0, w * z, 0.0), 1)


@launched
@triton.jit(do_not_specialize=CHANGING)
def entropy_kernel(
    Q, K, BIAS, OWN, TAU, LENGTHS, KEEP, ENTROPY, n, m, left, right, scale, unit, power, first_head, heads, keep_b,
    keep_h, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, ALIGN: tl.constexpr,
    BIASED: tl.constexpr, OWNED: tl.constexpr, PADDED: tl.constexpr, KEPT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """-sum_j w_ij log w_ij of each row; 0 for an empty one."""
    g = tl.program_id(1).to(tl.int64)
    i0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    i = i0 + tl.arange(0, BM)
    length, kept = _place(g, first_head, heads, LENGTHS, m, keep_b, keep_h, PADDED)
    q = _vectors(Q, g * n * D, i, n, D, DP, False)
    tau = _tau_of(TAU, OWN, g * n + i, i < n, unit, OWNED)[:, None]
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BM, BN, KEPT)
    total = tl.zeros([BM], tl.float32)
    for at in range(inner, outer, BN):
        j = at + tl.arange(0, BN)
        s = _product(q, _vectors(K, g * m * D, j, m, D, DP, True), WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        total += _spread(s * by - tau, power, ALIGN, WIDE)
    for turn in range(partial_tiles(start, inner, outer, stop, BN)):
        j = partial_tile(turn, start, inner, outer, BN) + tl.arange(0, BN)
        s = _product(q, _vectors(K, g * m * D, j, m, D, DP, False), WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        may = _keys(i, j, n, length, m, left, right, KEEP, kept, KEPT)
        total += _spread(tl.where(may, s * by - tau, -float("inf")), power, ALIGN, WIDE)
    tl.store(ENTROPY + g * n + i, -total * LN2, mask=i < n)


@launched
@triton.jit(do_not_specialize=CHANGING)
def mass_kernel(
    Q, K, BIAS, OWN, TAU, LENGTHS, KEEP, MASS, n, m, left, right, scale, unit, power, first_head, heads, keep_b, keep_h,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, ALIGN: tl.constexpr, BIASED: tl.constexpr,
    OWNED: tl.constexpr, PADDED: tl.constexpr, KEPT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """sum_i w_ij of each key: a program has BN keys and walks over the rows that may see them."""
    g = tl.program_id(1).to(tl.int64)
    j0 = tl.program_id(0) * BN
    j = j0 + tl.arange(0, BN)
    length, kept = _place(g, first_head, heads, LENGTHS, m, keep_b, keep_h, PADDED)
    k = _vectors(K, g * m * D, j, m, D, DP, False)
    start, inner, outer, stop = tiles_of(j0, length, n, right, left, BN, BM, KEPT)
    total = tl.zeros([BN], tl.float32)
    for at in range(inner, outer, BM):
        i = at + tl.arange(0, BM)
        s = _product(_vectors(Q, g * n * D, i, n, D, DP, True), k, WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        z = s * by - _tau_of(TAU, OWN, g * n + i, i < n, unit, OWNED)[:, None]
        total += tl.sum(weights(z, 0.0, power, ALIGN, WIDE), 0)
    for turn in range(partial_tiles(start, inner, outer, stop, BM)):
        i = partial_tile(turn, start, inner, outer, BM) + tl.arange(0, BM)
        s = _product(_vectors(Q, g * n * D, i, n, D, DP, False), k, WIDE)
        s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
        z = s * by - _tau_of(TAU, OWN, g * n + i, i < n, unit, OWNED)[:, None]
        z = tl.where(_keys(i, j, n, length, m, left, right, KEEP, kept, KEPT), z, -float("inf"))
        total += tl.sum(weights(z, 0.0, power, ALIGN, WIDE), 0)
    tl.store(MASS + g * m + j, total, mask=j < m)


@launched
@triton.jit(do_not_specialize=CHANGING)
def weights_kernel(
    Q, K, BIAS, OWN, TAU, LENGTHS, KEEP, PLACES, WEIGHTS, n, m, rows, columns, top, first, left, right, scale, unit,
    power, first_head, heads, keep_b, keep_h, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    C: tl.constexpr, ALIGN: tl.constexpr, BIASED: tl.constexpr, OWNED: tl.constexpr, PADDED: tl.constexpr,
    KEPT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The weights themselves: of `rows` x `columns` from (top, first) on, (g, rows, columns), a tile a program; or,
    where C > 0, of cells of C x C at PLACES (count, 3) = head, row and column of cells, (count, C, C)."""
    if C > 0:
        p = tl.program_id(0).to(tl.int64)
        g = tl.load(PLACES + 3 * p)
        i0, j0 = (tl.load(PLACES + 3 * p + 1) * C).to(tl.int32), (tl.load(PLACES + 3 * p + 2) * C).to(tl.int32)
        high, wide, line, at = C, C, C, p * C * C
    else:
        g = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(columns, BN)
        down, side = tl.program_id(0) // across * BM, tl.program_id(0) % across * BN
        i0, j0, high, wide, line = top + down, first + side, rows - down, columns - side, columns
        at = (g * rows + down) * columns + side
    u, v = tl.arange(0, BM), tl.arange(0, BN)
    i, j = i0 + u, j0 + v
    length, kept = _place(g, first_head, heads, LENGTHS, m, keep_b, keep_h, PADDED)
    s = _product(_vectors(Q, g * n * D, i, n, D, DP, False), _vectors(K, g * m * D, j, m, D, DP, False), WIDE)
    s, by = _biased(s, scale, BIAS, g * m, j, m, unit, BIASED)
    w = weights(s * by - _tau_of(TAU, OWN, g * n + i, i < n, unit, OWNED)[:, None], 0.0, power, ALIGN, WIDE)
    w = tl.where(_keys(i, j, n, length, m, left, right, KEEP, kept, KEPT), w, 0.0)
    tl.store(WEIGHTS + at + u[:, None] * line + v[None, :], w, mask=(u < high)[:, None] & (v < wide)[None, :])
