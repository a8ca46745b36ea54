"""GraphNetwork: any graph layer by name, with common depth, norm, residual and dropout."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.graph.adjacency import read_graph
from ...nn.graph.features import dropped
from ...nn.graph.linear import linear
from .layers import GraphStep, OwnLayer


class GraphNetwork(nn.Module):
    """A linear map, layers of one kind, and a classifier; depth, norm, residual and dropout apply to every kind.

        h_0 = relu(W x),   h_l = step(h_(l-1), edges),   log p = log_softmax(V h_L)

    x (N, nfeat) dense or torch.sparse, edge_index (2, E) or an adjacency, batch (N,) the graph of each node (one graph
    unless given)  ->  log-probabilities (N, nclass)

    kind         gcn, sage, gat, gatv2, transformer; gps, exphormer, sgformer, polynormer, nodeformer; esa: node-set
                 attention, alternating masked and full blocks; mean: equal weights; mlp: no edges; or a function
                 (width, heads) -> layer of your own, called as layer(h, edge_index)
    norm         "layer", "batch" or "none"; residual: residual connections (always in gps, exphormer and esa)
    return_maps  (log p, [map of each attention layer])

    Luo et al. 2024 (tunedGNN): most of the gap between classic networks and graph transformers is due to these choices.
    """

    def __init__(
        self,
        nfeat: int,
        width: int,
        nclass: int,
        kind: "str | OwnLayer" = "gcn",
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.5,
        norm: str = "layer",
        residual: bool = True,
    ):
        super().__init__()
        self.kind, self.dropout = kind, dropout
        self.entrance, self.answer = linear(nfeat, width), nn.Linear(width, nclass)
        self.steps = nn.ModuleList(
            GraphStep(kind, width, heads, place, dropout, None if norm == "none" else norm, residual)
            for place in range(layers)
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_maps: bool = False,
    ) -> Any:
        index = read_graph(edge_index).index
        h = dropped(F.relu(self.entrance(dropped(x, self.dropout, self.training))), self.dropout, self.training)
        maps = []
        for step in self.steps:
            h, amap = step(h, index, batch, graphs)
            maps += [] if amap is None else [amap]
        found = F.log_softmax(self.answer(h), -1)
        return (found, maps) if return_maps else found
