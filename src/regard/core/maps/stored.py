"""Stored maps: materialised weights, for mechanisms whose rows depend on each other and for derived maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..lowering.tiles import Tile
from ..torch_private import register_pytree_node
from .attention_map import AttentionMap, lead_of, operation

if TYPE_CHECKING:
    from ..plan import Plan


class StoredMap(AttentionMap):
    """A map that holds its weights, (g, [F,] n, m), and the allowed pairs, (g, n, m) or None for all.

    `rooted`: whether the weights carry an autograd graph.
    """

    def __init__(
        self,
        lead: tuple[int, ...],
        weights: Tensor,
        feature_wise: bool = False,
        slab: slice | None = None,
        rooted: bool = True,
        keep: Tensor | None = None,
    ):
        whole = slice(0, weights.shape[0]) if slab is None else slab
        super().__init__(lead, weights.shape[-2], weights.shape[-1], whole)
        self.features = weights.shape[1] if feature_wise else None
        self.stored, self.rooted, self.keep = weights, rooted, keep

    @staticmethod
    def of_plan(plan: "Plan", weights: Tensor) -> "StoredMap":
        keep = plan.over.allowed(Tile.whole(plan.batch, plan.heads, plan.n, plan.m, weights.device))
        keep = None if keep is None else keep.expand(plan.batch * plan.heads, plan.n, plan.m)
        return StoredMap(lead_of(plan), weights.flatten(0, 1), weights.ndim == 5, keep=keep)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self.stored.detach()[self.slab][..., rows, :][..., cols]

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        if self.keep is not None:
            return self.keep[self.slab][:, rows][..., cols].long()
        w = self.band(rows, cols)
        return torch.ones_like(w if self.features is None else w[:, 0], dtype=torch.long)

    def weights(self, grad: bool = False) -> Tensor:
        if grad and self.rooted:
            return self._unflat(self.stored[self.slab])
        return super().weights(grad)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "StoredMap":
        return StoredMap(lead, self.stored, self.features is not None, slab, self.rooted, self.keep)


@operation
def grouped(amap: AttentionMap, rows: Sequence[tuple[int, int]], cols: Sequence[tuple[int, int]]) -> StoredMap:
    """Spans of columns summed, spans of rows averaged."""
    for name, spans, size in (("rows", rows, amap.n), ("cols", cols, amap.m)):
        if not len(spans):
            raise ValueError(f"group({name}=[]) has no span: expected at least one (start, stop), as (0, {size}).")
        for start, stop in spans:
            if not 0 <= start < stop <= size:
                raise ValueError(f"group({name}) has the span ({start}, {stop}), expected 0 <= start < stop <= {size}.")
    made = []
    for start, stop in rows:
        band = amap.band(slice(start, stop), slice(0, amap.m)).mean(-2)
        made.append(torch.stack([band[..., a:b].sum(-1) for a, b in cols], -1))
    return StoredMap(amap.lead, torch.stack(made, -2), amap.features is not None, rooted=False)


def _flatten_stored(amap: StoredMap) -> tuple[list[Any], Any]:
    constants = (amap.lead, amap.features is not None, amap.slab.start, amap.slab.stop, amap.rooted)
    return [amap.stored, amap.keep], constants


def _unflatten_stored(leaves: Any, context: Any) -> StoredMap:
    lead, feature_wise, start, stop, rooted = context
    return StoredMap(lead, leaves[0], feature_wise, slice(start, stop), rooted, leaves[1])


register_pytree_node(StoredMap, _flatten_stored, _unflatten_stored, serialized_type_name="regard.StoredMap")
