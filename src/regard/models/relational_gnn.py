"""Networks for multi-relational graphs, with and without access to the relation."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..nn.graph import GATConv, RGATConv, SimpleHGNConv
from ..nn.graph.linear import linear

KINDS = ("rgat", "simple_hgn", "gat", "mean", "mlp")


class RelationalGNN(nn.Module):
    """Two layers over edges with relations, and a classifier: x (N, F), (edge_index, relation)  ->  log p.

    rgat         a matrix for each relation (RGATConv)
    simple_hgn   the relation in the score alone (SimpleHGNConv)
    gat, mean    without the relation: attention, or uniform weights; mlp: no edges
    """

    def __init__(self, nfeat: int, width: int, nclass: int, kind: str = "rgat", relations: int = 2, heads: int = 4):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"RelationalGNN(kind={kind!r}): expected one of {', '.join(KINDS)}.")
        self.kind = kind
        self.first, self.second = (self._layer(d, width, relations, heads) for d in (nfeat, width))
        self.answer = linear(width, nclass)

    def _layer(self, d: int, width: int, relations: int, heads: int) -> nn.Module:
        shared: dict[str, Any] = {"heads": heads}
        if self.kind == "mlp":
            return linear(d, width)
        if self.kind == "rgat":
            return RGATConv(d, width // heads, relations, **shared)
        if self.kind == "simple_hgn":
            return SimpleHGNConv(d, width // heads, relations, **shared)
        align = "uniform" if self.kind == "mean" else "softmax"
        return GATConv(d, width // heads, align=align, add_self_loops=False, **shared)

    def forward(self, x: Tensor, graph: tuple[Tensor, Tensor]) -> Tensor:
        for layer in (self.first, self.second):
            x = F.elu(layer(x, *self._graph_inputs(graph)))
        return F.log_softmax(self.answer(x), -1)

    @torch.no_grad()
    def edge_weights(self, x: Tensor, graph: tuple[Tensor, Tensor]) -> Tensor:
        """(E,): the weights of the first layer, mean of heads."""
        _, amap = self.first(x, *self._graph_inputs(graph), return_map=True)
        found: Tensor = amap.edges()
        return found.reshape(-1, found.shape[-1]).mean(0)

    def _graph_inputs(self, graph: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        return {"mlp": (), "gat": graph[:1], "mean": graph[:1]}.get(self.kind, graph)
