"""The map of attention by products of features: any weight from two rows of them."""

from typing import Any

import torch
from torch import Tensor

from ..arguments import shown
from ..maps.attention_map import AttentionMap
from ..torch_private import register_pytree_node


class FactoredMap(AttentionMap):
    """A_ij = (q_i . k_j + own_i [i = j]) inverse_i where i and j are of one segment, else 0; (..., n, n).

    q, k (g, n, d), inverse (g, n) one over the normaliser, 0 for an empty row; ids and own (n,), or None.
    """

    def __init__(
        self,
        lead: tuple[int, ...],
        q: Tensor,
        k: Tensor,
        inverse: Tensor,
        ids: Tensor | None = None,
        own: Tensor | None = None,
        signed: bool = True,
        slab: slice | None = None,
    ):
        super().__init__(lead, q.shape[1], k.shape[1], slice(0, q.shape[0]) if slab is None else slab)
        self.q, self.k, self.inverse = q.detach(), k.detach(), inverse.detach()
        self.ids, self.own = ids, None if own is None else own.detach()
        self.signed = signed

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "FactoredMap":
        return FactoredMap(lead, self.q, self.k, self.inverse, self.ids, self.own, self.signed, slab)

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        i, j = self._line(rows, self.n), self._line(cols, self.m)
        return self._alike(i, j).long().expand(self.slab.stop - self.slab.start, -1, -1)

    @torch.no_grad()
    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        i, j = self._line(rows, self.n), self._line(cols, self.m)
        w = self.q[self.slab][:, i] @ self.k[self.slab][:, j].mT
        if self.own is not None:
            w = w + (i[:, None] == j) * self.own.to(w.dtype)[i, None]
        return (w * self.inverse[self.slab][:, i, None]).masked_fill(~self._alike(i, j), 0.0)

    @torch.no_grad()
    def on(self, edge_index: Tensor) -> Tensor:
        """The weights of some pairs, (..., H, E): edge_index (2, E), what is attended first, as a graph has it."""
        if not isinstance(edge_index, Tensor) or edge_index.ndim != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"on(edge_index={shown(edge_index)}): expected integers (2, E), sources first.")
        j, i = edge_index[0], edge_index[1]
        w = torch.einsum("ged,ged->ge", self.q[self.slab][:, i], self.k[self.slab][:, j])
        if self.own is not None:
            w = w + (i == j) * self.own.to(w.dtype)[i]
        w = w * self.inverse[self.slab][:, i]
        w = w if self.ids is None else w.masked_fill(self.ids[i] != self.ids[j], 0.0)
        return self._unflat(w)

    def entropy(self) -> Tensor:
        if self.signed:
            raise ValueError("entropy() of signed weights: they may be below 0 and are no distribution.")
        return super().entropy()

    def _line(self, index: "slice | Tensor", size: int) -> Tensor:
        if isinstance(index, slice):
            return torch.arange(*index.indices(size), device=self.q.device)
        return index.to(self.q.device)

    def _alike(self, i: Tensor, j: Tensor) -> Tensor:
        if self.ids is None:
            return torch.ones(i.shape[0], j.shape[0], dtype=torch.bool, device=self.q.device)
        return self.ids[i][:, None] == self.ids[j]


def _unflatten(leaves: Any, context: Any) -> FactoredMap:
    lead, signed, start, stop = context
    q, k, inverse, ids, own = leaves
    return FactoredMap(lead, q, k, inverse, ids, own, signed, slice(start, stop))


register_pytree_node(
    FactoredMap,
    lambda amap: (
        [amap.q, amap.k, amap.inverse, amap.ids, amap.own],
        (amap.lead, amap.signed, amap.slab.start, amap.slab.stop),
    ),
    _unflatten,
    serialized_type_name="regard.FactoredMap",
)
