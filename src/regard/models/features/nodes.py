"""Node features after message passing."""

from typing import Any

from torch import nn
from torch.nn import functional as F

from regard.core.structures.edges import Edges
from regard.data.batch import Batch
from regard.nn.graph import GATv2Conv

from ..graph_networks.layers import GraphStep
from .encoded import Encoded


class Nodes(nn.Module):
    """Graph attention layers: inputs (N, d) and edges -> values (1, N, dim), the sum of all layers' outputs.

    align="uniform": the mean of the neighbours. layer: GATConv, models.gcn.GCNConv, ...; edge_dim=D: its layers use
    the batch's edge_attr (E, D). network: other layers by name, "gps", "exphormer", "sage", ... (`GraphStep`), which
    take the graph of each node. by_node: subsequent attention runs along the edges (node-level tasks) instead of over
    the nodes of each graph.
    """

    def __init__(
        self,
        d: int,
        dim: int,
        layers: int = 3,
        heads: int = 4,
        dropout: float = 0.0,
        by_node: bool = False,
        layer: Any = GATv2Conv,
        network: str = "",
        **options: Any,
    ):
        super().__init__()
        self.dim, self.by_node, self.dropout = dim, by_node, nn.Dropout(dropout)
        self.first = nn.Linear(d, dim)
        self.steps = nn.ModuleList(
            GraphStep(network, dim, heads, place, dropout) for place in range(layers * bool(network))
        )
        layers = 0 if network else layers
        self.layers = nn.ModuleList(layer(dim, dim // heads, heads=heads, **options) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, batch: Batch) -> Encoded:
        x = self.first(batch.inputs)
        maps = []
        for step in self.steps:
            x, amap = step(x, batch.edge_index, batch.graph, len(batch))
            maps += [amap] if amap is not None else []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            more = {"edge_attr": batch.edge_attr} if getattr(layer, "edge_dim", None) is not None else {}
            heard, amap = layer(F.relu(norm(x)), batch.edge_index, return_map=True, **more)
            x = x + self.dropout(heard)
            maps += [amap] if amap is not None else []
        assert batch.edge_index is not None
        over = Edges(batch.edge_index) if self.by_node else batch.over
        return Encoded(x[None], x.shape[0] if self.by_node else len(batch), over, maps=tuple(maps))
