"""The map that a recurrence implies: how much of each value stands in each output, computed where it is read."""

from typing import Any

import torch
from torch import Tensor

from ..maps.attention_map import BAND, AttentionMap
from ..torch_private import register_pytree_node


class ImpliedMap(AttentionMap):
    """A_ij of y_i = sum_j A_ij v_j, (..., n, n): causal, signed, and rows need not sum to one.

    Without the delta rule A_ij = q_i . (a_{j+1} ... a_i) k_j, any tile by itself. With it a row is read backwards in
    O(i d): A_ij = b_j x . k_j, then x <- a_j (x - b_j (x . k_j) k_j), from x = q_i at j = i down to 0.
    q (g, n, d) with its scale, k (g, n, d), decay (g, n) or (g, n, d) and beta (g, n), or None.
    """

    signed = True

    def __init__(
        self,
        lead: tuple[int, ...],
        q: Tensor,
        k: Tensor,
        decay: Tensor | None,
        beta: Tensor | None,
        slab: slice | None = None,
    ):
        super().__init__(lead, q.shape[1], k.shape[1], slice(0, q.shape[0]) if slab is None else slab)
        self.q, self.k, self.decay, self.beta = q.detach(), k.detach(), _detached(decay), _detached(beta)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "ImpliedMap":
        return ImpliedMap(lead, self.q, self.k, self.decay, self.beta, slab)

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        i, j = self._line(rows, self.n), self._line(cols, self.m)
        return (j <= i[:, None]).long().expand(self.slab.stop - self.slab.start, -1, -1)

    def reach(self, rows: slice) -> tuple[int, int]:
        return 0, max(1, min(self.m, rows.stop))

    @torch.no_grad()
    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        i, j = self._line(rows, self.n), self._line(cols, self.m)
        return self._by_tile(i, j) if self.beta is None else self._backwards(i, j)

    def _line(self, index: "slice | Tensor", size: int) -> Tensor:
        if isinstance(index, slice):
            return torch.arange(*index.indices(size), device=self.q.device)
        return index.to(self.q.device)

    def _by_tile(self, i: Tensor, j: Tensor) -> Tensor:
        q, k = self.q[self.slab][:, i], self.k[self.slab][:, j]
        future = j > i[:, None]
        if self.decay is None:
            return (q @ k.mT).masked_fill(future, 0.0)
        total = self.decay[self.slab].cumsum(1)
        if total.ndim == 2:
            lag = total[:, i, None] - total[:, None, j]
            return ((q @ k.mT) * lag.masked_fill(future, float("-inf")).exp()).masked_fill(future, 0.0)
        parts = []
        step = max(1, BAND // max(1, q.shape[0] * j.shape[0] * q.shape[-1]))
        for some in range(0, i.shape[0], step):
            r = slice(some, some + step)
            lag = total[:, i[r], None] - total[:, None, j]
            lag = lag.masked_fill(future[r, :, None], float("-inf"))
            parts.append(torch.einsum("gic,gjc,gijc->gij", q[:, r], k, lag.exp()))
        return torch.cat(parts, 1) if parts else q.new_zeros(q.shape[0], 0, j.shape[0])

    def _backwards(self, i: Tensor, j: Tensor) -> Tensor:
        """All rows at once, from the last key that any of them sees down to the first that is wanted."""
        assert self.beta is not None
        heads = self.slab.stop - self.slab.start
        out = self.q.new_zeros(heads, i.shape[0], j.shape[0])
        if not (i.numel() and j.numel()):
            return out
        q, k, beta = self.q[self.slab], self.k[self.slab], self.beta[self.slab]
        decay = None if self.decay is None else self.decay[self.slab].exp()
        asked = q[:, i]
        x = torch.zeros_like(asked)
        wanted: dict[int, list[int]] = {}
        for place, key in enumerate(j.tolist()):
            wanted.setdefault(key, []).append(place)
        for key in range(int(i.max()), int(j.min()) - 1, -1):
            x = torch.where((i == key)[None, :, None], asked, x)
            hit = torch.einsum("grd,gd->gr", x, k[:, key]) * beta[:, key, None]
            for place in wanted.get(key, ()):
                out[:, :, place] = hit
            x = x - hit[..., None] * k[:, None, key]
            x = x if decay is None else x * decay[:, key].reshape(heads, 1, -1)
        return out

    def entropy(self) -> Tensor:
        raise ValueError("entropy() of an implied map: its weights may be below 0 and are no distribution.")


def _detached(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach()


def _unflatten(leaves: Any, context: Any) -> ImpliedMap:
    q, k, decay, beta = leaves
    lead, start, stop = context
    return ImpliedMap(lead, q, k, decay, beta, slice(start, stop))


register_pytree_node(
    ImpliedMap,
    lambda amap: ([amap.q, amap.k, amap.decay, amap.beta], (amap.lead, amap.slab.start, amap.slab.stop)),
    _unflatten,
    serialized_type_name="regard.ImpliedMap",
)
