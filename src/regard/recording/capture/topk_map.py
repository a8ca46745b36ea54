"""Maps that hold only the largest weights of each row."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap


class TopKMap(AttentionMap):
    """The k largest weights of each row, (g, [F,] n, k), and their keys; all other weights read as 0."""

    def __init__(self, lead: tuple[int, ...], weight: Tensor, key: Tensor, m: int, slab: slice | None = None):
        super().__init__(lead, weight.shape[-2], m, slice(0, weight.shape[0]) if slab is None else slab)
        self.weight, self.key = weight, key
        self.features = weight.shape[1] if weight.ndim == 4 else None

    @staticmethod
    def of(amap: AttentionMap, k: int, copy: Callable[[Tensor], Tensor]) -> "TopKMap":
        best = amap.strongest(k)
        weight, key = (copy(x).reshape(-1, *x.shape[len(amap.lead) :]) for x in (best.weight, best.key))
        return TopKMap(amap.lead, weight, key, amap.m)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        weight, key = (x[self.slab][..., rows, :] for x in (self.weight, self.key))
        dense = weight.new_zeros((*weight.shape[:-1], self.m + 1))
        dense.scatter_add_(-1, key.long().where(key >= 0, self.m), weight)
        return dense[..., : self.m][..., cols]

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        w = self.band(rows, cols)
        return torch.ones_like(w if self.features is None else w[:, 0], dtype=torch.long)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "TopKMap":
        return TopKMap(lead, self.weight, self.key, self.m, slab)
