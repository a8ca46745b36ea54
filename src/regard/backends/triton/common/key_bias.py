"""A bias of keys or rows beside dot products: as numbers, one a place, or as columns that the product itself adds.

A number is read and added by every thread that has a pair of its column. Columns are multiplied by ones on the tensor
cores instead: three parts of the number in bfloat16, as exact as fp32 together, and zeros up to what those take at
once. They are divided by the scale of the product beforehand, since the sum of both is multiplied by it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..dense.primitives import product, rows_of
from ..runtime.fast_launcher import launched
from ..runtime.launch_replay import alloc, record_op

SMALLEST = 2.0**-60  # scale that a bias is divided by: beyond it quotients may be endless
LENGTHS = ("n", "m")  # for which nothing is compiled anew
WIDE = tl.constexpr(16)  # columns that a tensor core takes at once


@launched
@triton.jit(do_not_specialize=LENGTHS)
def unit_kernel(X, OUT, n, group, unit, BLOCK: tl.constexpr):
    """OUT (g, n) = unit X (g / group, n)"""
    at, g = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1).to(tl.int64)
    x = tl.load(X + g // group * n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(OUT + g * n + at, x * unit, mask=at < n)


def in_unit(x: Tensor, unit: float, group: int) -> Tensor:
    """A bias (g / group, n) in the unit of scores, for each of the heads that share it: (g, n) fp32."""
    g, n = x.shape[0] * group, x.shape[1]
    out = alloc((g, n), x.device)
    if out.numel():
        unit_kernel[triton.cdiv(n, 1024), g](record_op(Tensor.contiguous, x), out, n, group, float(unit), BLOCK=1024)
    return out


@launched
@triton.jit(do_not_specialize=LENGTHS)
def columns_kernel(X, OUT, m, share, BLOCK: tl.constexpr):
    """OUT (g, m + 1, WIDE) = three parts of share X (g, m), then zeros; what they are multiplied with in the last."""
    j, g = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1).to(tl.int64)
    x = tl.load(X + g * m + j, mask=j < m, other=0.0).to(tl.float32) * share
    x1 = x.to(tl.bfloat16)
    endless = tl.abs(x1.to(tl.float32)) == float("inf")
    rest = tl.where(endless, 0.0, x - x1.to(tl.float32))
    x2 = rest.to(tl.bfloat16)
    x3 = (rest - x2.to(tl.float32)).to(tl.bfloat16)
    d = tl.arange(0, WIDE)[None, :]
    parts = tl.where(d == 0, x1[:, None], tl.where(d == 1, x2[:, None], tl.where(d == 2, x3[:, None], 0.0)))
    parts = tl.where((j == m)[:, None], tl.where(d < 3, 1.0, 0.0), parts)
    tl.store(OUT + (g * (m + 1) + j)[:, None] * WIDE + d, parts.to(tl.bfloat16), mask=(j <= m)[:, None])


def in_columns(x: Tensor, share: float) -> Tensor:
    """A bias of keys (g, m), times share, as columns that a product adds to the scores: (g, m + 1, 16) bfloat16."""
    g, m = x.shape
    out = alloc((g, m + 1, WIDE.value), x.device, torch.bfloat16)
    if g:
        columns_kernel[triton.cdiv(m + 1, 128), g](record_op(Tensor.contiguous, x), out, m, float(share), BLOCK=128)
    return out


@triton.jit
def bias_of(BIAS, g, shared, m, BIASED: tl.constexpr):
    """Where a head's biases of keys begin: numbers (g, m), or columns (heads of keys, m + 1, WIDE)."""
    if BIASED == 2:
        return BIAS + shared * (m + 1) * WIDE
    else:
        return BIAS + g * m


@triton.jit
def ones_for(BIAS, m, BLOCK_M: tl.constexpr, BIASED: tl.constexpr):
    """What the columns of keys are multiplied with. It is read from memory: made in registers, it would keep tensor
    cores waiting, since those of a product may not be written to while it runs."""
    if BIASED == 2:
        return tl.load(BIAS + m * WIDE + tl.zeros([BLOCK_M, 1], tl.int32) + tl.arange(0, WIDE)[None, :])
    else:
        return 0.0


@triton.jit
def with_columns(s, ones, COLUMNS, first, total, BLOCK_N: tl.constexpr, WHOLE: tl.constexpr, INTERPRETED: tl.constexpr):
    """Products with a bias of each key, which tensor cores add: a number a pair would be read, and added, by each
    thread."""
    columns = tl.trans(rows_of(COLUMNS, first + tl.arange(0, BLOCK_N), total, WIDE, WIDE, WHOLE))
    if INTERPRETED:
        return s + product(ones, columns, "ieee", INTERPRETED)
    else:
        return tl.dot(ones, columns, s)
