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

if TYPE_CHECKING:
    from .triton_map import Ranges

LOG2E = tl.constexpr(1.4426950408889634)
TILE = 128


@triton.jit
def _tile(
    q, K, KEEP, base, keep_base, first, i, n, m, length, left, right, scale,
    D: tl.constexpr, DP: tl.constexpr, BN: tl.constexpr, KEPT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Scores (rows, BN) of the keys from `first`, in base 2, and which pairs may meet."""
    j = first + tl.arange(0, BN)
    d = tl.arange(0, DP)
    k = tl.load(
        K + base + j.to(tl.int64)[:, None] * D + d[None, :], mask=(j < m)[:, None] & (d < D)[None, :], other=0.0
    )
    if WIDE:  # the interpreter's product of bfloat16 is wrong
        q, k = q.to(tl.float32), k.to(tl.float32)
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2E)
    may = (j[None, :] >= i[:, None] - left) & (j[None, :] <= i[:, None] + right)
    may = may & (j[None, :] < length) & (i[:, None] < n)
    if KEPT:
        kept = tl.load(KEEP + keep_base + j, mask=j < m, other=0)
        may = may & (kept[None, :] > 0)
    return s, may


@triton.jit
def _columns(i0, n, m, length, left, right, BM: tl.constexpr, BN: tl.constexpr):
    """The columns that some row of this block may look at, from a multiple of BN."""
    start = tl.maximum(0, i0 - left) // BN * BN
    stop = tl.minimum(tl.minimum(m, length), i0 + BM - 1 + right + 1)
    return start, stop


@triton.jit
def tau_kernel(
    Q, K, TAU, LENGTHS, KEEP, n, m, left, right, scale, first_head, heads, keep_b, keep_h,
    D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, PADDED: tl.constexpr, KEPT: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """log2 sum exp2 of each row's scores; -inf for an empty row."""
    g = tl.program_id(1).to(tl.int64)
    i0 = tl.program_id(0) * BM
    i = i0 + tl.arange(0, BM)
    d = tl.arange(0, DP)
    batch, head = (g + first_head) // heads, (g + first_head) % heads
    length = m
    if PADDED:
        length = tl.load(LENGTHS + batch).to(tl.int32)
    q = tl.load(Q + g * n * D + i.to(tl.int64)[:, None] * D + d[None, :], mask=(i < n)[:, None] & (d < D)[None, :],
                other=0.0)  # fmt: skip
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    start, stop = _columns(i0, n, m, length, left, right, BM, BN)
    for first in range(start, stop, BN):
        s, may = _tile(q, K, KEEP, g * m * D, batch * keep_b + head * keep_h, first, i, n, m, length, left, right,
                       scale, D, DP, BN, KEPT, WIDE)  # fmt: skip
        s = tl.where(may, s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp2(top - safe) + tl.sum(tl.exp2(s - safe[:, None]), 1)
        top = higher
    tl.store(TAU + g * n + i, tl.where(total > 0, top + tl.log2(total), float("inf")), mask=i < n)


@triton.jit
def cells_kernel(
    Q, K, TAU, LENGTHS, KEEP, MASS, PEAK, COUNT, n, m, rows, columns, left, right, scale, first_head, heads, keep_b,
    keep_h, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, C: tl.constexpr,
    PADDED: tl.constexpr, KEPT: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    g = tl.program_id(1).to(tl.int64)
    i0 = tl.program_id(0) * BM
    i = i0 + tl.arange(0, BM)
    d = tl.arange(0, DP)
    batch, head = (g + first_head) // heads, (g + first_head) % heads
    length = m
    if PADDED:
        length = tl.load(LENGTHS + batch).to(tl.int32)
    q = tl.load(Q + g * n * D + i.to(tl.int64)[:, None] * D + d[None, :], mask=(i < n)[:, None] & (d < D)[None, :],
                other=0.0)  # fmt: skip
    tau = tl.load(TAU + g * n + i, mask=i < n, other=float("inf"))
    row = i0 // C + tl.arange(0, BM // C)
    start, stop = _columns(i0, n, m, length, left, right, BM, BN)
    for first in range(start, stop, BN):
        s, may = _tile(q, K, KEEP, g * m * D, batch * keep_b + head * keep_h, first, i, n, m, length, left, right,
                       scale, D, DP, BN, KEPT, WIDE)  # fmt: skip
        w = tl.where(may, tl.exp2(s - tau[:, None]), 0.0)
        parts = tl.reshape(w, (BM // C, C, BN // C, C))
        mass, peak = tl.sum(tl.sum(parts, 3), 1), tl.max(tl.max(parts, 3), 1)
        count = tl.sum(tl.sum(tl.reshape(may.to(tl.int32), (BM // C, C, BN // C, C)), 3), 1)
        column = first // C + tl.arange(0, BN // C)
        at = (g * rows + row.to(tl.int64)[:, None]) * columns + column[None, :]
        real = (row < rows)[:, None] & (column < columns)[None, :]
        tl.store(MASS + at, mass, mask=real)
        tl.store(PEAK + at, peak, mask=real)
        tl.store(COUNT + at, count, mask=real)


def launch(
    a: Tensor, b: Tensor, scale: float, ranges: "Ranges", first_head: int, heads: int, cell: int
) -> tuple[Tensor, Tensor, Tensor]:
    """a (g, n, d), b (g, m, d)  ->  mass, peak (g, rows, columns) in fp32 and count in int64."""
    a, b = a.contiguous(), b.contiguous()
    (g, n, d), m = a.shape, b.shape[1]
    rows, columns = -(-n // cell), -(-m // cell)
    tau = torch.empty((g, n), dtype=torch.float32, device=a.device)
    mass, peak = (torch.zeros((g, rows, columns), dtype=torch.float32, device=a.device) for _ in range(2))
    count = torch.zeros((g, rows, columns), dtype=torch.int32, device=a.device)
    tile = max(cell, 64 if a.dtype == torch.float32 else TILE)
    left, right = (max(-(1 << 30), min(x, n + m)) for x in (ranges.left, ranges.right))
    keep = ranges.keep
    keep_b = 0 if keep is None or keep.shape[0] == 1 else keep.stride(0)
    keep_h = 0 if keep is None or keep.shape[1] == 1 else keep.stride(1)
    lengths = a if ranges.lengths is None else ranges.lengths
    sizes = {"D": d, "DP": max(16, triton.next_power_of_2(d)), "BM": tile, "BN": tile,
             "PADDED": ranges.lengths is not None, "KEPT": keep is not None,
             "WIDE": triton.knobs.runtime.interpret, "num_warps": 8}  # fmt: skip
    where = (n, m), (left, right, scale, first_head, heads, keep_b, keep_h)
    grid = (triton.cdiv(n, tile), g)
    mask = a if keep is None else keep
    tau_kernel[grid](a, b, tau, lengths, mask, *where[0], *where[1], **sizes)
    cells_kernel[grid](
        a, b, tau, lengths, mask, mass, peak, count, *where[0], rows, columns, *where[1], C=cell, **sizes
    )
    return mass, peak, count.long()
