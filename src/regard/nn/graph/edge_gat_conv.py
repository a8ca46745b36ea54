"""EdgeGATConv: graph attention that also updates edge features (EGAT)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.arguments import checked
from regard.core.scores import GATv2

from ..call_checks import reads
from .input_checks import edge_features
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear


class EdgeGATConv(GraphLayer):
    """The new features of an edge, from its two ends and its own features, also give its score.

        f'_ij = LeakyReLU(A_d x_i + A_s x_j + A_e f_ij + b)
        x'_i = sum_j w_ij W x_j,   w_i = softmax_j a . f'_ij

    x (N, F), or (x_source, x_target); edge_index (2, E) or an adjacency; edge_attr (E, D)
    ->  x' (N, H C) and f' (E, H C_e), or means over heads with concat=False

    return_map=True: (x', f', AttentionMap).

    Also known as: EGAT.
    Kaminski et al. 2022. A_e = 0 makes it GATv2 with values of its own. A node without edges gets 0.
    """

    @checked
    def __init__(
        self,
        in_channels: "int | tuple[int, int]",
        edge_dim: int,
        out_channels: int,
        out_edge_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.01,
        dropout: float = 0.0,
        bias: bool = True,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        self.in_channels, self.edge_dim, self.out_channels = in_channels, edge_dim, out_channels
        self.out_edge_channels, self.heads, self.concat = out_edge_channels, heads, concat
        self.negative_slope = negative_slope
        first, last = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.lin_src = linear(first, heads * out_edge_channels, bias=False)
        self.lin_dst = linear(last, heads * out_edge_channels, bias=False)
        self.lin_edge = linear(edge_dim, heads * out_edge_channels, bias=False)
        self.lin_value = linear(first, heads * out_channels, bias=False)
        self.att = nn.Parameter(torch.empty(heads, out_edge_channels))
        self.bias = nn.Parameter(torch.empty(heads * out_edge_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin((self.lin_src, self.lin_dst, self.lin_edge, self.lin_value), (self.att,))

    @reads()
    def forward(self, x: Any, edge_index: Any = None, edge_attr: Tensor | None = None, return_map: bool = False) -> Any:
        graph = self.read(edge_index, x)
        attr = edge_features(self, edge_attr, graph, self.edge_dim)
        if attr is None:
            raise ValueError(f"EdgeGATConv(edge_dim={self.edge_dim}) needs edge_attr (E, {self.edge_dim}).")
        source, target = self.both_ends(x)
        asked = self.lin_dst(target)
        q = heads_first(asked if self.bias is None else asked + self.bias, self.heads)
        k, key = heads_first(self.lin_src(source), self.heads), heads_first(self.lin_edge(attr), self.heads)
        score = GATv2(slope=self.negative_slope)
        score.v = self.att
        attended = self.over_edges(q, k, heads_first(self.lin_value(source), self.heads), score, graph, key=key)
        j, i = graph.index[0], graph.index[1]
        seen = F.leaky_relu(q[..., i, :] + k[..., j, :] + key, self.negative_slope)  # the new edge features
        out, new = heads_last(attended.out, self.concat), heads_last(seen, self.concat)
        return (out, new, attended.map) if return_map else (out, new)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.edge_dim}, {self.out_channels}, "
            f"{self.out_edge_channels}, heads={self.heads})"
        )
