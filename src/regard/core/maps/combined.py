"""Sums of maps: attention that subtracts, gates or mixes several softmax maps."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..torch_private import register_pytree_node
from .attention_map import AttentionMap


class CombinedMap(AttentionMap):
    """A weighted sum of maps over the same queries and keys, w = sum_c share_c w_c; rows need not sum to one.

    shares  one for each map, (g or 1, n or 1): a number for each head, and for each query where gates depend on it
    """

    def __init__(self, maps: "tuple[AttentionMap, ...]", shares: "tuple[Tensor, ...]"):
        first = maps[0]
        if any(x.lead != first.lead or (x.n, x.m) != (first.n, first.m) for x in maps):
            raise ValueError(f"CombinedMap needs maps of one shape; these are {[x.shape for x in maps]}.")
        super().__init__(first.lead, first.n, first.m, first.slab)
        self.maps, self.shares = maps, tuple(x.detach() for x in shares)
        self.features = first.features

    @cached_property
    def signed(self) -> bool:  # type: ignore[override]
        """Read from the shares when first asked for: a GPU would be waited for, a compiler could not know."""
        return any(x.signed for x in self.maps) or any(bool((x < 0).any()) for x in self.shares)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        total: Tensor | None = None
        for amap, share in zip(self.maps, self.shares, strict=True):
            part = share if share.shape[0] == 1 else share[self.slab]
            part = part if part.shape[1] == 1 else part[:, rows]
            w = amap.band(rows, cols) * part[:, :, None]
            total = w if total is None else total + w
        assert total is not None
        return total

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return torch.stack([amap.allowed(rows, cols) for amap in self.maps]).amax(0)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "CombinedMap":
        return CombinedMap(tuple(amap.narrowed(lead, slab) for amap in self.maps), self.shares)


class MixedHeadsMap(AttentionMap):
    """A map whose heads are sums of another's: w'_h = sum_g mix_hg w_g, with mix (H', H)."""

    def __init__(
        self, whole: AttentionMap, mix: Tensor, lead: tuple[int, ...] | None = None, slab: slice | None = None
    ):
        heads = (*whole.lead[:-1], mix.shape[0])
        lead = heads if lead is None else lead
        count = (whole.slab.stop - whole.slab.start) // mix.shape[1] * mix.shape[0]
        super().__init__(lead, whole.n, whole.m, slice(0, count) if slab is None else slab)
        self.whole, self.mix = whole, mix.detach()

    @cached_property
    def signed(self) -> bool:  # type: ignore[override]
        return bool((self.mix < 0).any())

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        w = self.whole.band(rows, cols).unflatten(0, (-1, self.mix.shape[1]))
        mixed = torch.einsum("hg,bgrc->bhrc", self.mix.to(w.dtype), w).flatten(0, 1)
        return mixed[self.slab]

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        open_pairs = self.whole.allowed(rows, cols).unflatten(0, (-1, self.mix.shape[1])).amax(1)
        return open_pairs.repeat_interleave(self.mix.shape[0], 0)[self.slab]

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "MixedHeadsMap":
        return MixedHeadsMap(self.whole, self.mix, lead, slab)


class BlocksMap(AttentionMap):
    """A map over blocks of keys, distributed over their keys: w_ij = W_i,floor(j / block) / size of that block.

    Exact where a block's value is the mean of its keys' values. Keys outside all blocks have weight 0.
    """

    def __init__(self, whole: AttentionMap, block: int, m: int):
        super().__init__(whole.lead, whole.n, m, whole.slab)
        self.whole, self.block = whole, block

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.whole.signed

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self._spread(self.whole.band(rows, slice(0, self.whole.m)), cols) / self.block

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self._spread(self.whole.allowed(rows, slice(0, self.whole.m)), cols)

    def _spread(self, x: Tensor, cols: "slice | Tensor") -> Tensor:
        place = torch.arange(self.m, device=x.device)[cols] // self.block
        held = place < self.whole.m
        if self.whole.m == 0:
            return x.new_zeros(*x.shape[:-1], len(place))
        return x[..., place.clamp_max(self.whole.m - 1)] * held

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "BlocksMap":
        return BlocksMap(self.whole.narrowed(lead, slab), self.block, self.m)


class LastRowsMap(AttentionMap):
    """The last n rows of a map whose earlier rows were computed as context."""

    def __init__(self, whole: AttentionMap, n: int):
        super().__init__(whole.lead, n, whole.m, whole.slab)
        self.whole, self.features = whole, whole.features

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.whole.signed

    def _moved(self, rows: "slice | Tensor") -> "slice | Tensor":
        ahead = self.whole.n - self.n
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n)
            return slice(start + ahead, stop + ahead, step)
        return rows + ahead

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self.whole.band(self._moved(rows), cols)

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self.whole.allowed(self._moved(rows), cols)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "LastRowsMap":
        return LastRowsMap(self.whole.narrowed(lead, slab), self.n)


def _unflatten_combined(leaves: Any, context: Any) -> CombinedMap:
    maps, shares = leaves
    return CombinedMap(tuple(maps), tuple(shares))


def _unflatten_mixed(leaves: Any, context: Any) -> MixedHeadsMap:
    whole, mix = leaves
    lead, start, stop = context
    return MixedHeadsMap(whole, mix, lead, slice(start, stop))


def _unflatten_blocks(leaves: Any, context: Any) -> BlocksMap:
    (whole,), (block, m) = leaves, context
    return BlocksMap(whole, block, m)


def _unflatten_last_rows(leaves: Any, context: Any) -> LastRowsMap:
    (whole,) = leaves
    return LastRowsMap(whole, context)


register_pytree_node(
    CombinedMap,
    lambda amap: ([list(amap.maps), list(amap.shares)], None),
    _unflatten_combined,
    serialized_type_name="regard.CombinedMap",
)
register_pytree_node(
    BlocksMap,
    lambda amap: ([amap.whole], (amap.block, amap.m)),
    _unflatten_blocks,
    serialized_type_name="regard.BlocksMap",
)
register_pytree_node(
    LastRowsMap,
    lambda amap: ([amap.whole], amap.n),
    _unflatten_last_rows,
    serialized_type_name="regard.LastRowsMap",
)
register_pytree_node(
    MixedHeadsMap,
    lambda amap: ([amap.whole, amap.mix], (amap.lead, amap.slab.start, amap.slab.stop)),
    _unflatten_mixed,
    serialized_type_name="regard.MixedHeadsMap",
)
