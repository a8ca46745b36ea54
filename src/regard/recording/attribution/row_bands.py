"""The maps of one text at one site, read in bands of rows."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap


def texts_of(named: "list[tuple[str, AttentionMap]]") -> "list[tuple[str, list[AttentionMap]]]":
    """Maps by site; the steps of a generation, each with the keys before and some more, are one text."""
    made: list[tuple[str, list[AttentionMap]]] = []
    last: dict[str, int] = {}
    for name, amap in named:
        path = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        at = last.get(path)
        if at is not None and amap.n < amap.m and made[at][1][-1].m == amap.m - amap.n:
            made[at][1].append(amap)
            continue
        last[path] = len(made)
        made.append((name, [amap]))
    return made


class Rows(NamedTuple):
    """Some rows of one text: w and open (B, H, r, m), their places in the text (r,), and which rows count (B, H, r)."""

    w: Tensor
    open: Tensor
    place: Tensor
    real: Tensor


class TextMaps:
    """The maps of one text at one site, read in bands of rows; finds out what no mask says.

    A model may close pairs by a very low bias, and a written map has no mask. Where a map says that every pair is open,
    those above the diagonal, and each column, count as closed if no head of any row gives them any weight.
    """

    def __init__(self, maps: "list[AttentionMap]", cross: bool):
        self.maps, self.cross = maps, cross
        self.items, self.heads = torch.Size(maps[0].lead[:-1]).numel(), maps[0].heads
        self.m = max(amap.m for amap in maps)
        # by what a map says, and by its weights: (whether all pairs are open, which columns are, whether any is above)
        said, seen = (torch.zeros((self.items, self.m), dtype=torch.bool) for _ in range(2))
        whole, said_above, seen_above = True, False, False
        for amap in maps:
            for rows, w in self._bands(amap):
                may, above = self._may(amap, rows), self._above(amap, rows, w.device)
                whole = whole and bool(may.all())
                said[:, : amap.m] |= may.any(1).any(1).cpu()
                seen[:, : amap.m] |= (w > 0).any(1).any(1).cpu()
                said_above = said_above or bool((may & above).any())
                seen_above = seen_above or bool(((w > 0) & above).any())
        self.weighs = seen if whole else said  # (B, m)
        self.causal = not cross and not (seen_above if whole else said_above)
        self.first = self.weighs.int().argmax(-1)  # (B,)

    def _bands(self, amap: AttentionMap) -> "Iterator[tuple[slice, Tensor]]":
        if amap.features is not None:
            raise ValueError(
                f"{amap.site or 'A map'} has weights for each feature, {amap.shape}: heads looks at maps "
                "(items, heads, n, m)."
            )
        for rows, w in amap.bands():
            yield rows, w.unflatten(0, (self.items, self.heads))

    def _above(self, amap: AttentionMap, rows: slice, device: Any) -> Tensor:
        return torch.arange(amap.m, device=device) > self._place(amap, rows, device)[:, None]

    def _place(self, amap: AttentionMap, rows: slice, device: Any) -> Tensor:
        """Queries stand at the end of their keys."""
        return torch.arange(rows.start, rows.stop, device=device) + (0 if self.cross else amap.m - amap.n)

    def _may(self, amap: AttentionMap, rows: slice) -> Tensor:
        return amap.allowed(rows, slice(0, amap.m)).unflatten(0, (self.items, self.heads)) > 0

    def __iter__(self) -> "Iterator[Rows]":
        for amap in self.maps:
            for rows, w in self._bands(amap):
                place = self._place(amap, rows, w.device)
                may = self._may(amap, rows)
                may &= self.weighs[:, None, None, : amap.m].to(w.device)
                if self.causal:
                    may &= ~self._above(amap, rows, w.device)
                real = may.any(-1)
                if not self.cross:  # a place that nobody may look at is padding
                    real &= self.weighs.to(w.device)[:, None, place]
                yield Rows(w, may, place, real)
