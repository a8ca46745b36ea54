"""The difference of two maps: two prompts, two checkpoints, before and after an intervention.

    d_ij = a_ij - b_ij

Where both have labels along an axis, the axis of the difference holds the tokens of both. Runs of equal tokens are
aligned (by difflib); where a run is replaced by one of equal length, its tokens are paired in order; every other
token has an entry of its own. A column missing in one map has weight 0 there, so that compared rows of two softmaxes
sum to 0. A row missing in one map is not compared: it is 0 and allows no pair.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from torch import Tensor

from ..errors import Refused
from .attention_map import AttentionMap, PerItem, operation

Line = slice | Tensor


@dataclass(frozen=True, eq=False)
class PairedAxis:
    """The aligned axis of two maps. `this` and `other` (length,): the index of each entry in each map, -1 if missing.

    marks   a character for each entry: "=" the same token, "~" one replaced by the other, "+" only in this, "-" only in
            the other
    """

    names: list[str] | None
    this: Tensor
    other: Tensor
    marks: str

    @property
    def plain(self) -> bool:
        """Whether the axis is the same in both maps."""
        return "+" not in self.marks and "-" not in self.marks


def axis_of(this: "Sequence[str] | None", other: "Sequence[str] | None", n: int, m: int, which: str) -> PairedAxis:
    """Aligns the axes of two maps, of n and m entries."""
    if this is None or other is None or list(this) == list(other):
        if n != m:
            raise Refused(
                f"These maps have {n} and {m} {which} and no labels, so they cannot be "
                "aligned: label them first, rec.label(tokens=...)."
            )
        places = torch.arange(n)
        named = this if this is not None else other
        return PairedAxis(None if named is None else [str(x) for x in named], places, places, "=" * n)
    names, a, b, marks = [], [], [], []

    def put(i: int, j: int, mark: str) -> None:
        names.append(f"{this[i]} / {other[j]}" if mark == "~" else str(other[j] if i < 0 else this[i]))
        a.append(i)
        b.append(j)
        marks.append(mark)

    matcher = SequenceMatcher(None, list(this), list(other), autojunk=False)
    for what, i0, i1, j0, j1 in matcher.get_opcodes():
        if what == "equal" or (what == "replace" and i1 - i0 == j1 - j0):
            for i, j in zip(range(i0, i1), range(j0, j1), strict=True):
                put(i, j, "=" if what == "equal" else "~")
        else:
            for i in range(i0, i1):
                put(i, -1, "+")
            for j in range(j0, j1):
                put(-1, j, "-")
    return PairedAxis(names, torch.tensor(a), torch.tensor(b), "".join(marks))


def _part(amap: AttentionMap, lead: tuple[int, ...], slab: slice) -> AttentionMap:
    """A slice of a map's heads, relative to its first."""
    start = amap.slab.start
    return amap.narrowed(lead, slice(start + slab.start, start + slab.stop))


def _size(amap: AttentionMap) -> slice:
    return slice(0, amap.slab.stop - amap.slab.start)


class Aligned(AttentionMap):
    """A map on extended axes: row i is row `rows_of[i]` of `whole`; -1 has weight 0 and no allowed pair."""

    def __init__(self, whole: AttentionMap, rows_of: Tensor, columns_of: Tensor):
        super().__init__(whole.lead, len(rows_of), len(columns_of), _size(whole))
        device = whole.none().device
        self.whole, self.rows_of, self.columns_of = whole, rows_of.to(device), columns_of.to(device)
        self.features, self.site = whole.features, whole.site

    def band(self, rows: Line, cols: Line) -> Tensor:
        return self._placed(self.whole.band, rows, cols)

    def allowed(self, rows: Line, cols: Line) -> Tensor:
        return self._placed(self.whole.allowed, rows, cols)

    def _placed(self, read: Callable[[Line, Line], Tensor], rows: Line, cols: Line) -> Tensor:
        i, j = self.rows_of[rows], self.columns_of[cols]
        found = read(i[i >= 0], j[j >= 0])
        made = found.new_zeros((*found.shape[:-2], len(i), len(j)))
        made[..., (i >= 0).nonzero(), (j >= 0).nonzero()[:, 0]] = found
        return made

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "Aligned":
        return Aligned(_part(self.whole, lead, slab), self.rows_of, self.columns_of)


class Difference(AttentionMap):
    """The elementwise difference `this` - `other` on aligned axes."""

    signed = True

    def __init__(self, this: AttentionMap, other: AttentionMap, row_axis: PairedAxis, column_axis: PairedAxis):
        super().__init__(this.lead, this.n, this.m, _size(this))
        self.this, self.other, self.row_axis, self.column_axis = this, other, row_axis, column_axis
        self.features, self.site = this.features, this.site
        self.rows, self.columns = row_axis.names, column_axis.names

    @property
    def compared(self) -> Tensor:
        """(n,): the rows that both maps have."""
        return (self.row_axis.this >= 0) & (self.row_axis.other >= 0)

    def band(self, rows: Line, cols: Line) -> Tensor:
        a, b = self.this.band(rows, cols), self.other.band(rows, cols)
        wide = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
        return self._kept(a.to(wide) - b.to(a.device, wide), rows)

    def allowed(self, rows: Line, cols: Line) -> Tensor:
        a, b = self.this.allowed(rows, cols), self.other.allowed(rows, cols)
        return self._kept(torch.maximum(a, b.to(a.device)), rows)

    def _kept(self, x: Tensor, rows: Line) -> Tensor:
        """Zeroes the rows that are not compared."""
        return x * self.compared[rows if isinstance(rows, slice) else rows.cpu()].to(x)[:, None]

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "Difference":
        return Difference(_part(self.this, lead, slab), _part(self.other, lead, slab), self.row_axis, self.column_axis)

    def entropy(self) -> Tensor:
        raise Refused("A difference has negative weights and so no entropy: compare a.entropy() and b.entropy().")

    def change(self, rows: "Line | None" = None) -> Tensor:
        """Total variation distance of each row, 1/2 sum_j |d_ij|, (..., H, [F,] r): 0 is unchanged, 1 disjoint."""
        parts = []
        for i in torch.arange(self.n)[slice(None) if rows is None else rows].split(1024):
            parts.append(self.band(i, slice(0, self.m)).abs().sum(-1) / 2)
        return self._unflat(torch.cat(parts, -1)) if parts else self.none().new_zeros(self.shape[:-1])


@operation
def difference(this: AttentionMap, other: AttentionMap) -> Difference:
    """Difference `this - other`, computed lazily; different texts are aligned by their tokens."""
    if not isinstance(other, AttentionMap):
        raise TypeError(f"A map less a {type(other).__name__}: expected another AttentionMap.")
    if this.lead != other.lead or this.features != other.features:
        raise Refused(
            f"These maps have {this.lead} and {other.lead} heads"
            + ("" if this.features == other.features else f", {this.features} and {other.features} features")
            + ": a difference needs the same number. amap[0, 3] is one head of one item."
        )
    for x in (this.rows, this.columns, other.rows, other.columns):
        if isinstance(x, PerItem):
            raise Refused("The items of this batch have different texts: compare one item, amap[0] - other[0].")
    row_axis = axis_of(this.rows, other.rows, this.n, other.n, "rows")
    same = this.rows is not None and this.rows == this.columns and other.rows == other.columns
    column_axis = row_axis if same else axis_of(this.columns, other.columns, this.m, other.m, "columns")
    both = [
        amap if row_axis.plain and column_axis.plain else Aligned(amap, i, j)
        for amap, i, j in (
            (this, row_axis.this, column_axis.this),
            (other, row_axis.other, column_axis.other),
        )
    ]
    return Difference(both[0], both[1], row_axis, column_axis)
