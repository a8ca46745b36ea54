"""Node features, dense or torch.sparse: dropout, and the product with a weight matrix.

A bag of words has one entry in a hundred, so x W^T costs a hundredth of the dense product. torch sorts the entries by
column in each backward pass; here that is done once for a sparsity pattern and cached.
"""

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.caches.tensor_cache import cached_by_tensor


class Pattern(NamedTuple):
    """Sparsity pattern, CSR and CSC. By row: column[start[i] : start[i + 1]]; by column likewise, with the permutation
    between the two orders and its inverse."""

    size: tuple[int, int]
    start: Tensor
    column: Tensor
    start_by_column: Tensor
    row: Tensor
    place: Tensor
    back: Tensor

    @property
    def turned(self) -> "Pattern":
        return Pattern(self.size[::-1], self.start_by_column, self.row, self.start, self.column, self.back, self.place)


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T, x (N, F) sparse and W (C, F)  ->  (N, C). Differentiable in the weight, to any order."""
    ours = x.layout in (torch.sparse_coo, torch.sparse_csr) and x.ndim == 2 and x.dtype == weight.dtype
    traced = torch.compiler.is_compiling() or torch.is_autocast_enabled(weight.device.type)
    if not ours or traced or x.requires_grad or type(x) is not Tensor:
        return x @ weight.t()
    made: Tensor = _Product.apply(_entries(x), weight, pattern_of(x))
    return made


def dropped(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout. Of torch.sparse features the entries are dropped: a zero stays zero either way."""
    if not training or p == 0:
        return x
    if x.layout == torch.strided:
        return _dropped(x, p)
    if x.layout == torch.sparse_coo:
        x = x.coalesce()
        y = torch.sparse_coo_tensor(
            x.indices(), _dropped(x.values(), p), x.shape, is_coalesced=True, check_invariants=False
        )
    elif x.layout == torch.sparse_csr:
        y = _csr(x.crow_indices(), x.col_indices(), _dropped(x.values(), p), x.shape)
    else:
        raise ValueError(f"x is {x.layout}, expected dense features, or sparse ones as COO or CSR.")
    cached_by_tensor((y,), "pattern", lambda: pattern_of(x))  # the same pattern
    return y


def pattern_of(x: Tensor) -> Pattern:
    """The pattern of a sparse COO or CSR matrix, cached by tensor."""
    return cached_by_tensor((x,), "pattern", lambda: _pattern(x))


def _pattern(x: Tensor) -> Pattern:
    rows, columns = x.shape
    if x.layout == torch.sparse_csr:
        start, column = x.crow_indices(), x.col_indices()
        row = torch.repeat_interleave(torch.arange(rows, device=x.device), start.diff())
    else:
        row, column = x.coalesce().indices()
        start = _starts(row, rows)
    place = torch.argsort(column, stable=True)
    back = torch.empty_like(place)
    back[place] = torch.arange(place.shape[0], device=x.device)
    small = torch.int32 if max(rows, columns, place.shape[0]) < 2**31 else torch.int64
    start, column, by_column, row = (t.to(small) for t in (start, column, _starts(column, columns), row[place]))
    return Pattern((rows, columns), start, column, by_column, row, place, back)


def _starts(key: Tensor, size: int) -> Tensor:
    counts = torch.bincount(key, minlength=size)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _entries(x: Tensor) -> Tensor:
    """The values, in the order of the rows."""
    return x.values() if x.layout == torch.sparse_csr else x.coalesce().values()


class _Product(torch.autograd.Function):
    """X W^T of entries (nnz,), a weight (C, F) and a pattern; its gradient is the same product with X transposed."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, pattern: Pattern) -> Tensor:
        ctx.save_for_backward(values)
        ctx.pattern = pattern
        return _csr(pattern.start, pattern.column, values, pattern.size) @ weight.t()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        (values,) = ctx.saved_tensors
        made: Tensor = _Product.apply(values[ctx.pattern.place], grads[0].t(), ctx.pattern.turned)
        return None, made.t(), None


def _csr(start: Tensor, column: Tensor, values: Tensor, size: Any) -> Tensor:
    _expect_csr()
    return torch.sparse_csr_tensor(start, column, values, size, check_invariants=False)


@lru_cache
def _expect_csr() -> None:
    """Suppresses torch's warning that CSR support is in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = torch.zeros(1, dtype=torch.int64)
        torch.sparse_csr_tensor(none, none[:0], torch.zeros(0), (0, 1), check_invariants=False)


def _dropped(x: Tensor, p: float) -> Tensor:
    if x.device.type != "cpu" or torch.compiler.is_compiling() or p >= 1:
        return F.dropout(x, p)
    keep = torch.rand_like(x, dtype=torch.float32).ge_(p)  # 2.5 times faster than torch's bernoulli_
    return x * keep.to(x.dtype).mul_(1 / (1 - p))
