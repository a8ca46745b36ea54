"""Edge-set attention: a graph as its set of edges."""

import torch
from torch import nn

from regard.core.structures import Segments
from regard.data.batch import Batch
from regard.nn.graph import EdgeSetAttention

from .encoded import Encoded


class EdgeSets(nn.Module):
    """Edge-set attention: inputs (N, d) and edges -> values (1, graphs, dim), one for each graph.

    Alternating masked and full blocks, then pooling and a block among the seeds. edge_dim=D uses the batch's
    edge_attr (E, D).
    """

    def __init__(
        self, d: int, dim: int, layers: int = 3, heads: int = 4, dropout: float = 0.0, edge_dim: int | None = None
    ):
        super().__init__()
        self.dim, self.edge_dim = dim, edge_dim
        blocks = ("MS" * layers)[:layers] + "PS"
        self.sets = EdgeSetAttention(d, dim, heads, blocks, edge_dim, seeds=8, dropout=dropout)

    def forward(self, batch: Batch) -> Encoded:
        attr = batch.edge_attr if self.edge_dim is not None else None
        x, maps = self.sets(batch.inputs, batch.edge_index, attr, batch.graph, len(batch), return_map=True)
        each = torch.arange(len(batch), device=x.device)
        return Encoded(x[None], len(batch), Segments(each, count=len(batch)), maps=tuple(maps))
