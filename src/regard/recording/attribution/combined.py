"""Maps computed from other maps cell by cell, on access."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.core.errors import Refused
from regard.core.maps.attention_map import AttentionMap

Line = slice | Tensor
Join = Callable[[list[Tensor], slice, Line], Tensor]


class Combined(AttentionMap):
    """A map whose bands are join(bands, heads, cols) of the bands of its parts, each (g, merged, r, c).

    `merged` heads of the parts make one head of this map: 1, or all of them for a mean. `heads` is which of this map's
    heads are asked for. join returns (g, r, c).
    """

    def __init__(
        self, parts: Sequence[AttentionMap], lead: tuple[int, ...], merged: int, join: Join, slab: slice | None = None
    ):
        first = parts[0]
        size = (first.slab.stop - first.slab.start) // merged
        super().__init__(lead, first.n, first.m, slice(0, size) if slab is None else slab)
        self.parts, self.merged, self.join = list(parts), merged, join
        self.site, self.rows, self.columns = first.site, first.rows, first.columns

    def _bands(self, read: Callable[[AttentionMap], Tensor]) -> list[Tensor]:
        found = []
        for part in self.parts:
            at = part.slab.start
            slab = slice(at + self.slab.start * self.merged, at + self.slab.stop * self.merged)
            one = part.narrowed((slab.stop - slab.start,), slab)
            band = read(one)
            full = band.float() if band.dtype in (torch.float16, torch.bfloat16) else band
            found.append(full.unflatten(0, (-1, self.merged)))
        return found

    def band(self, rows: Line, cols: Line) -> Tensor:
        return self.join(self._bands(lambda part: part.band(rows, cols)), self.slab, cols)

    def allowed(self, rows: Line, cols: Line) -> Tensor:
        return self._bands(lambda part: part.allowed(rows, cols))[0].amax(1)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "Combined":
        return Combined(self.parts, lead, self.merged, self.join, slab)


def each_head(parts: Sequence[AttentionMap], join: Join) -> Combined:
    """A map with the heads of its parts: join gets bands (g, 1, r, c)."""
    return Combined(parts, parts[0].lead, 1, join)


def over_heads(parts: Sequence[AttentionMap], join: Join) -> Combined:
    """A map with one head, (..., 1, n, m), from all heads of its parts: join gets bands (g, H, r, c)."""
    lead = parts[0].lead
    if parts[0].features is not None:
        raise Refused(
            f"The map of {parts[0].site or 'this layer'} has weights for each feature, {parts[0].shape}: "
            "take the mean over features first."
        )
    return Combined(parts, (*lead[:-1], 1), parts[0].heads, join)


def mean_of_heads(amap: AttentionMap) -> Combined:
    """The mean of a map's heads, (..., 1, n, m), computed where it is read.

    It hides heads that disagree: a head that looks left and one that looks right average to one that looks nowhere.
    """
    return over_heads([amap], lambda bands, heads, cols: bands[0].mean(1))
