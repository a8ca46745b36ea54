"""SGFormer: linear attention over all nodes in parallel with a graph convolutional network."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.graph import SGFormerAttention
from ...nn.graph.adjacency import read_graph
from ...nn.graph.features import dropped
from ...nn.graph.linear import linear
from ..gcn import GCNConv


class SGFormer(nn.Module):
    """Two branches, over all nodes and along the edges, combined with a fixed weight.

        log p = log_softmax(V (w gcn(x, edges) + (1 - w) attention(x)))

    x (N, in_channels) dense or torch.sparse, edge_index (2, E) or an adjacency, batch (N,) the graph of each node (one
    graph unless given)  ->  log-probabilities (N, out_channels)

    Wu et al. 2023. Arguments and parameters are those of torch_geometric.nn.models.SGFormer; return_maps=True gives
    (log p, maps of the attention layers).
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        trans_num_layers: int = 2,
        trans_num_heads: int = 1,
        trans_dropout: float = 0.5,
        gnn_num_layers: int = 3,
        gnn_dropout: float = 0.5,
        graph_weight: float = 0.5,
        aggregate: str = "add",
    ):
        super().__init__()
        if aggregate not in ("add", "cat"):
            raise ValueError(f'SGFormer(aggregate={aggregate!r}): expected "add" or "cat".')
        self.trans_conv = _AllNodes(in_channels, hidden_channels, trans_num_layers, trans_num_heads, trans_dropout)
        self.graph_conv = _Neighbours(in_channels, hidden_channels, gnn_num_layers, gnn_dropout)
        self.graph_weight, self.aggregate = graph_weight, aggregate
        self.fc = nn.Linear(hidden_channels * (2 if aggregate == "cat" else 1), out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        batch: Tensor | None = None,
        graphs: int | None = None,
        return_maps: bool = False,
    ) -> Any:
        far, maps = self.trans_conv(x, batch, graphs)
        near = self.graph_conv(x, read_graph(edge_index).index)
        if self.aggregate == "cat":
            both = torch.cat([far, near], 1)
        else:
            both = self.graph_weight * near + (1 - self.graph_weight) * far
        found = F.log_softmax(self.fc(both), -1)
        return (found, maps) if return_maps else found


class _Branch(nn.Module):
    """A linear map and layers, each followed by norm, ReLU and dropout; parameter names as in torch_geometric."""

    def __init__(self, inputs: int, width: int, layers: int, dropout: float, norm: Any):
        super().__init__()
        self.dropout = dropout
        self.fcs = nn.ModuleList([linear(inputs, width, glorot=False)])
        self.bns = nn.ModuleList(norm(width) for _ in range(layers + 1))

    def _stepped(self, x: Tensor, place: int) -> Tensor:
        return dropped(F.relu(self.bns[place](x)), self.dropout, self.training)


class _AllNodes(_Branch):
    def __init__(self, inputs: int, width: int, layers: int, heads: int, dropout: float):
        super().__init__(inputs, width, layers, dropout, nn.LayerNorm)
        self.attns = nn.ModuleList(SGFormerAttention(width, heads, width) for _ in range(layers))

    def forward(self, x: Tensor, batch: Tensor | None, graphs: int | None) -> tuple[Tensor, list[Any]]:
        x, maps = self._stepped(self.fcs[0](x), 0), []
        for place, attention in enumerate(self.attns):
            made, amap = attention(x, batch, graphs, return_map=True)
            x = self._stepped((made + x) / 2, place + 1)
            maps.append(amap)
        return x, maps


class _Neighbours(_Branch):
    def __init__(self, inputs: int, width: int, layers: int, dropout: float):
        super().__init__(inputs, width, layers, dropout, nn.BatchNorm1d)
        self.convs = nn.ModuleList(GCNConv(width, width) for _ in range(layers))

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        x = last = self._stepped(self.fcs[0](x), 0)
        for place, conv in enumerate(self.convs):
            x = self._stepped(conv(x, index), place + 1) + last
        return x
