"""Attention maps: reading attention weights.

Most maps are lazy (`lazy.py`): they compute weights on demand. Some store their weights (`stored.py`). Reads that
return other maps are in files of their own and register by `operation`, so that this file imports none of them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..display import Displayable
from ..errors import Refused, within

if TYPE_CHECKING:
    from ..plan import Plan
    from .pyramid import FoundWeights, Pyramid
    from .stored import StoredMap

BAND = 1 << 20  # weights computed at a time by reads that go over the whole map

F = TypeVar("F", bound=Callable[..., Any])
_operations: dict[str, Callable[..., Any]] = {}


def operation(function: F) -> F:
    """Registers a function of maps that a method below calls by name."""
    _operations[function.__name__] = function
    return function


class Strongest(NamedTuple):
    """The largest weights of each row, descending: weight and key (..., H, [F,] n, k); on graphs also the edge.

    Where a row has fewer, the weight is 0 and key and edge are -1; an added self-loop has an edge id of E + node.
    """

    weight: Tensor
    key: Tensor
    edge: Tensor | None = None


class PerItem(tuple["Sequence[str]", ...]):
    """Labels of an axis for each item of the batch: amap[b] has those of item b."""


# What readers of maps share among themselves: blocks of flattened heads, plans, the parts of a call.
INTERNAL = {
    "allowed",
    "apart",
    "band",
    "bands",
    "block_weights",
    "budget",
    "cells",
    "column_axis",
    "compared",
    "entropy_of_rows",
    "graph",
    "keep",
    "key",
    "lead",
    "live",
    "narrowed",
    "none",
    "of",
    "of_plan",
    "plan",
    "problem",
    "reach",
    "reader_cache",
    "replayable",
    "rooted",
    "row_axis",
    "slab",
    "state",
    "stored",
    "weight",
    "within",
}


class AttentionMap(Displayable):
    """Weights w (..., H, n, m), or (..., H, F, n, m) where they are feature-wise: row = attending, column = attended.

    n, m             number of rows (queries) and columns (keys)
    features         F of feature-wise weights, else None
    rows, columns    labels of queries and keys; None without labels
    site             where it was recorded: "encoder.layer.3.attention.self"
    signed           whether weights may be negative, as in differences

    Subclasses give `band(rows, cols)`: weights (g, [F,] r, c) of flattened heads; all other reads use it.
    """

    internal = Displayable.internal | INTERNAL

    features: int | None = None
    signed = False
    site: str | None = None
    rows: "Sequence[str] | None" = None
    columns: "Sequence[str] | None" = None

    def __init__(self, lead: tuple[int, ...], n: int, m: int, slab: slice):
        self.lead, self.n, self.m, self.slab = lead, n, m, slab
        self._pyramid: Pyramid | None = None

    # implemented by subclasses

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        """Weights (g, [F,] r, c) of this map's heads, detached."""
        raise TypeError(f"{type(self).__name__} has no band(rows, cols).")

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        """Number of allowed pairs at each entry, (g, r, c): 0 or 1, more for repeated edges."""
        raise TypeError(f"{type(self).__name__} has no allowed(rows, cols).")

    def reach(self, rows: slice) -> tuple[int, int]:
        """A range of columns outside which these rows have no weight."""
        return 0, self.m

    def cells(self, cell: int) -> tuple[Tensor, Tensor, Tensor] | None:
        """mass, peak and count of square cells, (g, rows, columns), or None if there is no fast way."""
        return None

    def within(self, places: Tensor, cell: int) -> Tensor | None:
        """Weights (count, cell, cell) of cells at (count, 3) = head, row, column; None if there is no fast way."""
        return None

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "AttentionMap":
        raise TypeError(f"{type(self).__name__} cannot be indexed.")

    def none(self) -> Tensor:
        """An empty tensor with the dtype and device of the weights."""
        return self.band(slice(0, 0), slice(0, 0))

    def budget(self) -> int:
        """Weights computed at a time: more on a GPU."""
        return BAND if self.none().device.type == "cpu" else 64 * BAND

    # shape

    @property
    def heads(self) -> int:
        """Number of heads; 1 for the map of one head."""
        return self.lead[-1] if self.lead else 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of weights()."""
        return (*self.lead, *(() if self.features is None else (self.features,)), self.n, self.m)

    def _unflat(self, x: Tensor) -> Tensor:
        return x.reshape(*self.lead, *x.shape[1:])

    def __getitem__(self, index: "int | tuple[int, ...]") -> "AttentionMap":
        """amap[b, h]: the map of one item and head; amap[b]: of one item."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > len(self.lead) or not all(isinstance(i, int) for i in index):
            raise IndexError(
                f"A map over {self.lead} heads takes up to {len(self.lead)} integers, got {index}. "
                "Rows and columns are read with tile(rows, cols)."
            )
        start, size = self.slab.start, self.slab.stop - self.slab.start
        for i, length in zip(index, self.lead, strict=False):
            size //= length
            start += within(i, length, f"amap{list(index)}", "on this axis") * size
        made = self.narrowed(self.lead[len(index) :], slice(start, start + size))
        made.site = self.site
        made.rows, made.columns = (
            x[index[0]] if isinstance(x, PerItem) and index else x for x in (self.rows, self.columns)
        )
        return made

    def __len__(self) -> int:
        """Length of the first leading axis: the items of a batch, or the heads of one item."""
        return self._leading("len(amap)")

    def __iter__(self) -> "Iterator[AttentionMap]":
        """amap[0], amap[1], ...: the map of each item, or of each head."""
        return iter([self[i] for i in range(self._leading("for item in amap"))])

    def __bool__(self) -> bool:
        return True  # also of an empty batch

    def _leading(self, who: str) -> int:
        if not self.lead:
            raise TypeError(
                f"{who}: a map of one head has no axis of heads, but {self.n} rows (amap.n) and "
                f"{self.m} columns (amap.m), which row(i), column(j) and weights() read."
            )
        return self.lead[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "np.ndarray[Any, Any]":
        """weights() on the CPU, for numpy; bf16 and fp16 become fp32."""
        if getattr(self, "graph", None) is not None:
            raise Refused(
                "np.asarray of a map over edges: say which you mean, np.asarray(amap.edges()) for the weights"
                f" on your edges, np.asarray(amap.weights()) for the matrix {self.shape}."
            )
        if copy is False:
            raise ValueError(
                "np.asarray(amap, copy=False): a map computes or converts its weights when they are read, "
                "so leave copy= out."
            )
        w = self.weights().detach().cpu()
        made = np.asarray((w.float() if w.dtype.itemsize < 4 else w).numpy(), dtype)
        return made.copy() if copy else made

    def __dlpack__(self, **how: Any) -> Any:
        """weights() for torch.as_tensor, torch.from_dlpack and other libraries, on their device."""
        return self._whole("torch.as_tensor").__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.none().__dlpack_device__()

    def _whole(self, who: str) -> Tensor:
        """The weights as one array; an error for maps over edges, where edges() or weights() must be chosen."""
        if getattr(self, "graph", None) is not None:
            raise Refused(
                f"{who} of a map over edges: say which you mean, amap.edges() for the weights on your edges, "
                f"amap.weights() for the matrix {self.shape}."
            )
        return self.weights().detach()

    def to_pandas(self) -> Any:
        """A pandas DataFrame: a row for each query (of each item and head), a column for each key, with their labels.

        A map over edges: a row for each of the caller's edges with its source and target, a column for each head.
        """
        return _operations["as_table"](self)

    # reads

    def weights(self, grad: bool = False) -> Tensor:
        """All weights, (..., H, [F,] n, m). grad=True: differentiable, by the reference definition."""
        if grad:
            raise Refused(
                f"This {type(self).__name__} stores numbers only: weights(grad=True) needs the map that "
                "attend returned."
            )
        return self.tile(slice(None), slice(None))

    def tile(self, rows: "slice | Sequence[int] | Tensor", cols: "slice | Sequence[int] | Tensor") -> Tensor:
        """The weights of some rows and columns, (..., H, [F,] r, c)."""
        return self._unflat(self.band(_line(rows, self.n, "rows"), _line(cols, self.m, "cols")))

    def row(self, i: int) -> Tensor:
        """The weights that query i gives, (..., H, [F,] m)."""
        i = within(i, self.n, f"row({i})", "rows")
        return self.tile(slice(i, i + 1), slice(None)).squeeze(-2)

    def column(self, j: int) -> Tensor:
        """The weights that key j receives, (..., H, [F,] n)."""
        j = within(j, self.m, f"column({j})", "columns")
        return self.tile(slice(None), slice(j, j + 1)).squeeze(-1)

    def topk(self, i: int, k: int) -> tuple[Tensor, Tensor]:
        """The k largest weights of row i and their keys, each (..., H, [F,] k)."""
        best = self.row(i).topk(min(k, self.m), -1)
        return best.values, best.indices

    def strongest(self, k: int = 1) -> Strongest:
        """The k largest weights of every row and their indices; k=1 is the maximum and its argmax."""
        k = min(_count(k), self.m)
        parts = [w.topk(k, -1) for _, w in self.bands()]
        if not parts:
            empty = self.none().new_zeros((*self.shape[:-1], k))
            return Strongest(empty, empty.long())
        weight, key = (torch.cat(x, -2) for x in zip(*parts, strict=True))
        return Strongest(self._unflat(weight), self._unflat(key.masked_fill(weight == 0, -1)))

    def bands(self) -> Iterator[tuple[slice, Tensor]]:
        """Row bands over all columns, bounded in memory: (rows, weights (g, [F,] r, m))."""
        size = (self.slab.stop - self.slab.start) * (self.features or 1) * max(1, self.m)
        step = max(1, self.budget() // max(1, size))
        for start in range(0, self.n, step):
            rows = slice(start, min(self.n, start + step))
            yield rows, self.band(rows, slice(0, self.m))

    def entropy(self) -> Tensor:
        """-sum_j w_ij log w_ij of each row in nats, (..., H, [F,] n); 0 for an empty row."""
        parts = [-torch.xlogy(w, w).sum(-1) for _, w in self.bands()]
        return self._unflat(torch.cat(parts, -1)) if parts else self.none().new_zeros(self.shape[:-1])

    def mass(self) -> Tensor:
        """Total weight of each key over all queries, sum_i w_ij, (..., H, [F,] m)."""
        total = None
        for _, w in self.bands():
            total = w.sum(-2) if total is None else total + w.sum(-2)
        return self.none().new_zeros((*self.shape[:-2], self.m)) if total is None else self._unflat(total)

    def find(self, threshold: float) -> "FoundWeights":
        """Every weight above a threshold, exactly, in row order; with a pyramid it skips cells whose peak is below."""
        found: FoundWeights = _operations["find"](self, threshold)
        return found

    def pyramid(self, cell: int | None = None) -> "Pyramid":
        """Mass, peak and count of square cells at every level, from single cells of `cell` x `cell` up to one."""
        made = self._pyramid
        if made is None or (cell is not None and made.cell != cell):
            made = self._pyramid = _operations["build_pyramid"](self, cell)
        return made

    def edges(self, grad: bool = False) -> Tensor:
        """The weights of the caller's edges, in the caller's order (maps over edges)."""
        raise Refused("This map is not over edges: edges() needs over=Edges(...). weights() gives the matrix.")

    @property
    def tau(self) -> Tensor:
        """One number for each row, (..., H, [F,] n): its log-sum-exp, or its threshold."""
        raise Refused(
            f"This {type(self).__name__} has no tau (log sum exp of a row, or its threshold): its weights do not come "
            "from the scores of one call. The map that attend returned has one, unless its rows depend on earlier rows."
        )

    @property
    def loops(self) -> Tensor:
        """Weights of the added self-loops."""
        raise Refused("This map is not over edges: loops needs over=Edges(..., self_loops=True).")

    def group(self, rows: Sequence[tuple[int, int]], cols: "Sequence[tuple[int, int]] | None" = None) -> "StoredMap":
        """Words from tokens: each span [start, stop) of columns is summed, each span of rows averaged.

        Rows that sum to one still do if the spans cover every key. cols = rows unless given.
        """
        made: StoredMap = _operations["grouped"](self, rows, rows if cols is None else cols)
        return made

    def __sub__(self, other: "AttentionMap") -> "AttentionMap":
        """Elementwise difference of two maps; different texts are aligned by their tokens."""
        made: AttentionMap = _operations["difference"](self, other)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"


def lead_of(plan: "Plan") -> tuple[int, ...]:
    """The leading axes of weights(): the caller's, heads included."""
    if plan.q_ndim == 2:
        return ()
    return (*plan.lead, plan.heads)


def _line(index: "slice | Sequence[int] | Tensor", size: int, name: str) -> "slice | Tensor":
    """A plain slice, or a 1-D index tensor, within range."""
    if isinstance(index, slice):
        start, stop, step = index.indices(size)
        return slice(start, max(start, stop)) if step == 1 else torch.arange(start, stop, step)
    made = torch.as_tensor(index)
    whole = made.numel() == 0 or not (made.dtype == torch.bool or made.is_floating_point())
    made = made.long()
    if not whole or made.ndim != 1 or (made.numel() and not -size <= int(made.min()) <= int(made.max()) < size):
        raise IndexError(
            f"tile({name}={index}): expected a slice or a list of whole numbers from {-size} to "
            f"{size - 1} (a boolean mask becomes mask.nonzero()[:, 0])."
        )
    return made % size if made.numel() else made


def _count(k: int) -> int:
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"strongest(k={k!r}): expected a whole number, 1 or more.")
    return k
