"""Cores whose score of a pair depends on other pairs of its row or of earlier rows.

    ContextualCore   s_ij = scale a_i . b_j + a_i . table[p_ij],   p_ij = sum_{l = j..i} sigmoid(scale a_i . b_l)
    ConvolvedCore    s_ij = sum_{x, y} kernel_xy scale a_{i-x} . b_{j-y},   over pairs with j - y <= i - x

Any tile follows from queries and keys: a tile of the first reads all keys of its rows, of the second a margin around
it. Query i is at key position i + shift. Tensors are flattened as in `score_kernels`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .kernel_forms import CoreForm
from .score_kernels import EdgePart, Grads, Index
from .serialization import Spec


@dataclass(frozen=True, eq=False)
class ContextualCore(Spec):
    """Contextual positions (CoPE): table (g, positions, w), interpolated at fractional positions."""

    a: Tensor
    b: Tensor
    table: Tensor
    scale: float
    shift: int

    features = None
    edge: "EdgePart | None" = None
    most_rows = 64

    def kernel_form(self) -> CoreForm | None:
        return None

    def scores(self, slab: slice, rows: Index, cols: Index, ids: Tensor | None = None) -> Tensor:
        place = _places(rows, self.a) + self.shift
        return contextual(self.a[slab, rows], self.b[slab], self.table[slab], self.scale, place)[..., cols]

    def vjp(self, slab: slice, rows: Index, cols: Index, ds: Tensor, grads: Grads, ids: Tensor | None = None) -> None:
        a, b, table = self.a[slab, rows], self.b[slab], self.table[slab]
        seen = _positions(a * self.scale @ b.transpose(-1, -2), table, _places(rows, self.a) + self.shift)
        whole = torch.zeros_like(seen.gates)  # (g, r, m): the gradient of scores, 0 outside of the tile
        whole[..., cols] = ds.to(whole.dtype)
        read = a @ table.transpose(-1, -2)
        below, above = (read.gather(-1, x) for x in (seen.low, seen.high))
        dposition = whole * (above - below) * seen.inside
        dread = torch.zeros_like(read)
        _add_along(dread, seen.low, whole * (1 - seen.part))
        _add_along(dread, seen.high, whole * seen.part)
        whole += (
            dposition.cumsum(-1) * seen.gates * (1 - seen.gates)
        )  # a key's gate enters the positions of all earlier keys
        grads.of(self.a)[slab, rows] += self.scale * (whole @ b) + dread @ table
        grads.of(self.b)[slab] += self.scale * (whole.transpose(-1, -2) @ a)
        grads.of(self.table)[slab] += dread.transpose(-1, -2) @ a

    def __str__(self) -> str:
        return f"dot at contextual positions (width {self.a.shape[-1]}, {self.table.shape[1]} positions)"


@dataclass(frozen=True, eq=False)
class ConvolvedCore(Spec):
    """ConvolvedDot scores (multi-token attention): kernel (g, c_q, c_k); `after` of its columns look at later keys."""

    a: Tensor
    b: Tensor
    kernel: Tensor
    scale: float
    shift: int

    features = None
    edge: "EdgePart | None" = None
    most_rows = 64

    def kernel_form(self) -> CoreForm | None:
        return None

    def scores(self, slab: slice, rows: Index, cols: Index, ids: Tensor | None = None) -> Tensor:
        rows, before, cols, beside = self._margins(rows, cols)
        return self._tile(self.a[slab, before], self.b[slab, beside], self.kernel[slab], rows, before, cols, beside)

    def vjp(self, slab: slice, rows: Index, cols: Index, ds: Tensor, grads: Grads, ids: Tensor | None = None) -> None:
        at, before, by, beside = self._margins(rows, cols)
        a, b, kernel = self.a[slab, before], self.b[slab, beside], self.kernel[slab]
        pairs = self._pairs(a, b, before, beside)
        (first, last), deep = margins(kernel), kernel.shape[-2] - 1
        wide = torch.nn.functional.pad(pairs, (last, -first, deep, 0))
        dwide, dkernel = torch.zeros_like(wide), torch.zeros_like(kernel)
        at, by = at - before.start, by - beside.start
        for x in range(deep + 1):
            line, dline = wide.index_select(-2, at + (deep - x)), dwide.new_zeros(*ds.shape[:-1], wide.shape[-1])
            for y in range(first, last + 1):
                moved = by + (last - y)  # distinct for the columns of a tile
                dkernel[..., x, y - first] = (ds * line.index_select(-1, moved)).sum((-1, -2))
                dline[..., moved] += kernel[..., x, y - first, None, None] * ds
            dwide[..., at + (deep - x), :] += dline
        dpairs = dwide[..., deep:, last : last + pairs.shape[-1]].masked_fill(self._future(before, beside), 0.0)
        grads.of(self.a)[slab, before] += self.scale * (dpairs @ b)
        grads.of(self.b)[slab, beside] += self.scale * (dpairs.transpose(-1, -2) @ a)
        grads.of(self.kernel)[slab] += dkernel

    def _margins(self, rows: Index, cols: Index) -> tuple[Tensor, slice, Tensor, slice]:
        """Indices of rows and columns, and the ranges of queries and keys that their scores depend on."""
        first, last = margins(self.kernel)
        at, by = _places(rows, self.a), _places(cols, self.b)
        before, beside = slice(0, self.a.shape[1]), slice(0, self.b.shape[1])
        if isinstance(rows, slice) and rows.start is not None:
            before = slice(max(0, rows.start - self.kernel.shape[1] + 1), rows.stop)
        if isinstance(cols, slice) and cols.start is not None:
            beside = slice(max(0, cols.start - last), min(self.b.shape[1], cols.stop - first))
        return at, before, by, beside

    def _tile(
        self, a: Tensor, b: Tensor, kernel: Tensor, rows: Tensor, before: slice, cols: Tensor, beside: slice
    ) -> Tensor:
        return convolved(self._pairs(a, b, before, beside), kernel, rows - before.start, cols - beside.start)

    def _pairs(self, a: Tensor, b: Tensor, before: slice, beside: slice) -> Tensor:
        return (a * self.scale @ b.transpose(-1, -2)).masked_fill(self._future(before, beside), 0.0)

    def _future(self, before: slice, beside: slice) -> Tensor:
        i = torch.arange(before.start, before.stop, device=self.a.device)
        return torch.arange(beside.start, beside.stop, device=self.a.device) > i[:, None] + self.shift

    def __str__(self) -> str:
        size = " x ".join(str(x) for x in self.kernel.shape[1:])
        return f"dot convolved over {size} (width {self.a.shape[-1]})"


def contextual(a: Tensor, b: Tensor, table: Tensor, scale: float, place: Tensor) -> Tensor:
    """a (..., r, w) at places (r,) among the keys b (..., m, w), table (..., positions, w) -> s (..., r, m)."""
    s = a * scale @ b.transpose(-1, -2)
    seen = _positions(s, table, place)
    read = a @ table.transpose(-1, -2).to(a.dtype)  # (..., r, positions)
    below, above = (read.gather(-1, x) for x in (seen.low, seen.high))
    return s + below + seen.part * (above - below)


class _Positions(NamedTuple):
    """For scores (..., r, m): gates; the table rows around a position, and its fraction between them."""

    gates: Tensor
    low: Tensor
    high: Tensor
    part: Tensor
    inside: Tensor  # whether the position is not past the last row


def _positions(s: Tensor, table: Tensor, place: Tensor) -> _Positions:
    future = torch.arange(s.shape[-1], device=s.device) > place[:, None]
    gates = torch.sigmoid(s).masked_fill(future, 0.0)
    counted = gates.flip(-1).cumsum(-1).flip(-1)
    position = counted.clamp_max(table.shape[-2] - 1)
    low, high = position.detach().floor(), position.detach().ceil()
    return _Positions(gates, low.long(), high.long(), position - low, counted <= table.shape[-2] - 1)


def _add_along(total: Tensor, place: Tensor, value: Tensor) -> None:
    """total (g, r, p) += value (g, r, m) at place along the last axis, in a fixed order."""
    if total.device.type == "cpu":
        total.scatter_add_(-1, place, value)
    else:  # scatter_add_ is atomic on CUDA; an accumulating index_put_ sorts
        g, r = (torch.arange(size, device=total.device) for size in total.shape[:2])
        total.index_put_(
            (g[:, None, None].expand_as(place), r[:, None].expand_as(place), place), value, accumulate=True
        )


def margins(kernel: Tensor) -> tuple[int, int]:
    """The offsets y of the first and the last column of a kernel (..., c_q, c_k): key j - y."""
    return 1 - -(-kernel.shape[-1] // 2), kernel.shape[-1] // 2


def convolved(pairs: Tensor, kernel: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """sum_{x, y} kernel_xy pairs_{i-x, j-y} at rows i and columns j, pairs outside being 0.

    pairs (..., n, m), kernel (..., c_q, c_k), rows (r,), cols (c,) -> (..., r, c)
    """
    first, last = margins(kernel)
    deep = kernel.shape[-2] - 1
    wide = torch.nn.functional.pad(pairs, (last, -first, deep, 0))  # pair (i, j) stands at (i + deep, j + last)
    total: Tensor | None = None
    for x in range(deep + 1):
        line = wide.index_select(-2, rows + (deep - x))
        for y in range(first, last + 1):
            part = kernel[..., x, y - first, None, None] * line.index_select(-1, cols + (last - y))
            total = part if total is None else total + part
    assert total is not None
    return total


def _places(index: Index, x: Tensor) -> Tensor:
    """Of a slice (slice(None) too) or an index into the rows of x (g, n, w)."""
    return torch.arange(x.shape[1], device=x.device)[index] if isinstance(index, slice) else index
