"""The cells of a pyramid: two passes over the tiles of Q K^T, on tensor cores, nothing of n x m written.

Operations: 4 n m d a head (two products), 2 n m exponentials; bytes: 2 (n + m) d b + 12 cells. The first pass leaves
the logarithm of each row's sum, the second adds exp(s - tau) into cells of C x C; a tile holds whole cells, so each is
written once and no atomic is used.
"""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from .triton_ranges import allowed, length_of, partial_tile, partial_tiles, tiles_of

if TYPE_CHECKING:
    from .ranges import Ranges

LOG2E = 1.4426950408889634
TILE, WIDTH, WARPS, STAGES = 128, 128, 4, 3


@triton.jit
def _scores(
    q, K, base, first, m, D: tl.constexpr, DP: tl.constexpr, BN: tl.constexpr, WHOLE: tl.constexpr, WIDE: tl.constexpr
):  # fmt: skip
    """q . k (rows, BN) of the keys from `first`; WHOLE: none of them lies beyond m."""
    j = first + tl.arange(0, BN)
    d = tl.arange(0, DP)
    at = K + base + j.to(tl.int64)[None, :] * D + d[:, None]
    if WHOLE and D == DP:
        k = tl.load(at)
    else:
        k = tl.load(at, mask=(j < m)[None, :] & (d < D)[:, None], other=0.0)
    if WIDE:  # the interpreter's product of bfloat16 is wrong
        q, k = q.to(tl.float32), k.to(tl.float32)
    return tl.dot(q, k, input_precision="ieee")


@triton.jit
def _allowed(i, first, n, length, m, left, right, KEEP, keep_base, BN: tl.constexpr, KEPT: tl.constexpr):
    """Which pairs (rows, BN) may meet."""
    j = first + tl.arange(0, BN)
    may = allowed(i, j, n, length, left, right)
    if KEPT:
        kept = tl.load(KEEP + keep_base + j, mask=j < m, other=0)
        may = may & (kept[None, :] > 0)
    return may


@triton.jit
def _summed(top, total, s, scale):
    """One more tile of scores in log2 sum exp2, kept as the largest and a sum relative to it."""
    higher = tl.maximum(top, tl.max(s, 1) * scale)
    safe = tl.where(higher == -float("inf"), 0.0, higher)
    total = total * tl.exp2(top - safe) + tl.sum(tl.exp2(s * scale - safe[:, None]), 1)
    return higher, total


@triton.jit
def _rows(Q, LENGTHS, n, m, first_head, heads, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr,
          PADDED: tl.constexpr):  # fmt: skip
    """Of this program: the head's number, its batch and head, the first row, the rows, the queries, the length.

    The last rows come first: under causality they have the most to do.
    """
    g = tl.program_id(1).to(tl.int64)
    i0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    i = i0 + tl.arange(0, BM)
    d = tl.arange(0, DP)
    batch, head = (g + first_head) // heads, (g + first_head) % heads
    length = length_of(LENGTHS, batch, m, PADDED)
    q = tl.load(Q + g * n * D + i.to(tl.int64)[:, None] * D + d[None, :], mask=(i < n)[:, None] & (d < D)[None, :],
                other=0.0)  # fmt: skip
    return g, batch, head, i0, i, q, length


@triton.jit
def tau_kernel(
    Q, K, TAU, LENGTHS, KEEP, n, m, left, right, scale, first_head, heads, keep_b, keep_h,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, PADDED: tl.constexpr, KEPT: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """log2 sum exp2 of each row's scores; +inf for an empty row. scale is positive and carries log2(e)."""
    g, batch, head, i0, i, q, length = _rows(Q, LENGTHS, n, m, first_head, heads, D, DP, BM, PADDED)
    kept = batch * keep_b + head * keep_h
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BM, BN, KEPT)
    for first in range(inner, outer, BN):
        s = _scores(q, K, g * m * D, first, m, D, DP, BN, True, WIDE)
        top, total = _summed(top, total, s, scale)
    for turn in range(partial_tiles(start, inner, outer, stop, BN)):
        first = partial_tile(turn, start, inner, outer, BN)
        s = _scores(q, K, g * m * D, first, m, D, DP, BN, False, WIDE)
        may = _allowed(i, first, n, length, m, left, right, KEEP, kept, BN, KEPT)
        top, total = _summed(top, total, tl.where(may, s, -float("inf")), scale)
    tl.store(TAU + g * n + i, tl.where(total > 0, top + tl.log2(total), float("inf")), mask=i < n)


@triton.jit
def _pooled(w, MASS, PEAK, at, real, BM: tl.constexpr, BN: tl.constexpr, C: tl.constexpr):
    parts = tl.reshape(w, (BM // C, C, BN // C, C))
    tl.store(MASS + at, tl.sum(tl.sum(parts, 3), 1), mask=real)
    tl.store(PEAK + at, tl.max(tl.max(parts, 3), 1), mask=real)


@triton.jit
def cells_kernel(
    Q, K, TAU, LENGTHS, KEEP, MASS, PEAK, COUNT, n, m, rows, columns, left, right, scale, first_head, heads, keep_b,
    keep_h, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, C: tl.constexpr,
    PADDED: tl.constexpr, KEPT: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    g, batch, head, i0, i, q, length = _rows(Q, LENGTHS, n, m, first_head, heads, D, DP, BM, PADDED)
    kept = batch * keep_b + head * keep_h
    tau = tl.load(TAU + g * n + i, mask=i < n, other=float("inf"))
    row = i0 // C + tl.arange(0, BM // C)
    start, inner, outer, stop = tiles_of(i0, n, length, left, right, BM, BN, KEPT)
    line = (g * rows + row.to(tl.int64)[:, None]) * columns
    for first in range(inner, outer, BN):
        s = _scores(q, K, g * m * D, first, m, D, DP, BN, True, WIDE)
        column = first // C + tl.arange(0, BN // C)
        real = (row < rows)[:, None] & (column < columns)[None, :]
        _pooled(tl.exp2(s * scale - tau[:, None]), MASS, PEAK, line + column[None, :], real, BM, BN, C)
        tl.store(COUNT + line + column[None, :], tl.full([BM // C, BN // C], C * C, tl.int32), mask=real)
    for turn in range(partial_tiles(start, inner, outer, stop, BN)):
        first = partial_tile(turn, start, inner, outer, BN)
        s = _scores(q, K, g * m * D, first, m, D, DP, BN, False, WIDE)
        may = _allowed(i, first, n, length, m, left, right, KEEP, kept, BN, KEPT)
        column = first // C + tl.arange(0, BN // C)
        real = (row < rows)[:, None] & (column < columns)[None, :]
        w = tl.where(may, tl.exp2(s * scale - tau[:, None]), 0.0)
        _pooled(w, MASS, PEAK, line + column[None, :], real, BM, BN, C)
        count = tl.sum(tl.sum(tl.reshape(may.to(tl.int32), (BM // C, C, BN // C, C)), 3), 1)
        tl.store(COUNT + line + column[None, :], count, mask=real)


def launch(
    a: Tensor, b: Tensor, scale: float, ranges: "Ranges", first_head: int, heads: int, cell: int
) -> tuple[Tensor, Tensor, Tensor]:
    """a (g, n, d), b (g, m, d)  ->  mass, peak (g, rows, columns) in fp32 and count in int64."""
    a, b = a.contiguous(), b.contiguous()
    if scale <= 0:  # the kernels take the largest of the products before they scale them
        a, scale = (a * 0, 1.0) if scale == 0 else (-a, -scale)
    (g, n, d), m = a.shape, b.shape[1]
    rows, columns = -(-n // cell), -(-m // cell)
    tau = torch.empty((g, n), dtype=torch.float32, device=a.device)
    mass, peak = (torch.zeros((g, rows, columns), dtype=torch.float32, device=a.device) for _ in range(2))
    count = torch.zeros((g, rows, columns), dtype=torch.int32, device=a.device)
    tile = max(cell, 64 if a.dtype == torch.float32 else TILE)
    wide = max(cell, 64 if a.dtype == torch.float32 else WIDTH)
    left, right = (max(-(1 << 30), min(x, n + m)) for x in (ranges.left, ranges.right))
    keep = ranges.keep
    keep_b = 0 if keep is None or keep.shape[0] == 1 else keep.stride(0)
    keep_h = 0 if keep is None or keep.shape[1] == 1 else keep.stride(1)
    lengths = a if ranges.lengths is None else ranges.lengths
    sizes = {"D": d, "DP": max(16, triton.next_power_of_2(d)), "BM": tile, "BN": wide,
             "PADDED": ranges.lengths is not None, "KEPT": keep is not None,
             "WIDE": triton.knobs.runtime.interpret, "num_warps": WARPS, "num_stages": STAGES}  # fmt: skip
    where = (n, m), (left, right, scale * LOG2E, first_head, heads, keep_b, keep_h)
    grid = (triton.cdiv(n, tile), g)
    mask = a if keep is None else keep
    tau_kernel[grid](a, b, tau, lengths, mask, *where[0], *where[1], **sizes)
    cells_kernel[grid](
        a, b, tau, lengths, mask, mass, peak, count, *where[0], rows, columns, *where[1], C=cell, **sizes
    )
    return mass, peak, count.long()
