"""What a record keeps: keys that grow with a cache, and maps of the largest weights alone."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap

from .calls import ScoredCall, _folded


class Keys:
    """The keys of one site. When a model generates, each step has the keys before and one more: they are kept once."""

    def __init__(self) -> None:
        self.buffer: Tensor | None = None
        self.count = 0

    def shared(self, call: ScoredCall, copy: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, H_k, m, d) of this call, in memory that it may share with the calls before."""
        given = copy(_folded(call.k.detach(), call.heads))
        old, count, m = self.buffer, self.count, given.shape[2]
        grows = old is not None and m > count > 0 and old.shape[:2] == given.shape[:2] and old.dtype == given.dtype
        if not grows or old is None or not torch.equal(old[:, :, :count], given[:, :, :count]):
            self.buffer, self.count = given, m
            return given
        if m > old.shape[2]:
            room = given.new_empty((*given.shape[:2], max(m, 2 * old.shape[2]), given.shape[3]))
            room[:, :, :count] = old[:, :, :count]
            self.buffer = old = room
        # .data has a version of its own: the maps of the steps before see no change, and there is none in their rows
        old.data[:, :, count:m] = given[:, :, count:]
        self.count = m
        return old.data[:, :, :m]


class TopMap(AttentionMap):
    """The k largest weights of each row, (g, n, k), and their keys; everything else reads as 0."""

    def __init__(self, lead: tuple[int, ...], weight: Tensor, key: Tensor, m: int, slab: slice | None = None):
        super().__init__(lead, weight.shape[-2], m, slice(0, weight.shape[0]) if slab is None else slab)
        self.weight, self.key = weight, key
        self.features = weight.shape[1] if weight.ndim == 4 else None

    @staticmethod
    def of(amap: AttentionMap, k: int, copy: Callable[[Tensor], Tensor]) -> "TopMap":
        best = amap.strongest(k)
        weight, key = (copy(x).reshape(-1, *x.shape[len(amap.lead) :]) for x in (best.weight, best.key))
        return TopMap(amap.lead, weight, key, amap.m)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        weight, key = (x[self.slab][..., rows, :] for x in (self.weight, self.key))
        dense = weight.new_zeros((*weight.shape[:-1], self.m + 1))
        dense.scatter_add_(-1, key.long().where(key >= 0, self.m), weight)
        return dense[..., : self.m][..., cols]

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        w = self.band(rows, cols)
        return torch.ones_like(w if self.features is None else w[:, 0], dtype=torch.long)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "TopMap":
        return TopMap(lead, self.weight, self.key, self.m, slab)
