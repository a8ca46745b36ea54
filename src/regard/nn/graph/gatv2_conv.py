"""GATv2Conv: dynamic graph attention, whose ranking of neighbours depends on the query."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import checked
from regard.core.scores import GATv2

from ..call_checks import reads
from .input_checks import edge_features
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear
from .self_loops import check_fill, with_loops


class GATv2Conv(GraphLayer):
    """As GATConv, with the attention vector after the nonlinearity, so targets may rank sources differently.

        x'_i = sum_j w_ij W_l x_j,   w_i = softmax_j a . LeakyReLU(W_r x_i + W_l x_j + W_e e_ij)

    x (..., N, F), or (x_source, x_target) for a bipartite graph; edge_index (2, E), sources then targets, or an
    adjacency; edge_attr (E, D)  ->  (..., N, H C), or (..., N, C) with concat=False

    share_weights    W_r = W_l. Other arguments, and what is returned, as in GATConv.

    Brody et al. 2022. Arguments and parameters are those of torch_geometric.nn.GATv2Conv. Dynamic: it fits tables in
    which each target needs another source (DictionaryLookup), where GATConv cannot.
    """

    @checked
    def __init__(
        self,
        in_channels: "int | tuple[int, int]",
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: "float | Tensor | str" = "mean",
        bias: bool = True,
        share_weights: bool = False,
        residual: bool = False,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        check_fill("GATv2Conv", fill_value)
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.negative_slope, self.add_self_loops, self.edge_dim = negative_slope, add_self_loops, edge_dim
        self.fill_value, self.residual, self.share_weights = fill_value, residual, share_weights
        first, last = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.lin_l = linear(first, heads * out_channels, bias)
        self.lin_r = self.lin_l if share_weights else linear(last, heads * out_channels, bias)
        self.att = nn.Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = None if edge_dim is None else linear(edge_dim, heads * out_channels, bias=False)
        width = out_channels * (heads if concat else 1)
        self.res = linear(last, width, bias=False) if residual else None
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin((self.lin_l, self.lin_r, self.lin_edge, self.res), (self.att,))

    @reads()
    def forward(
        self,
        x: "Tensor | tuple[Tensor, Tensor]",
        edge_index: Any = None,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        source, target = self.both_ends(x)
        k = heads_first(self.lin_l(source), self.heads)  # (..., H, m, C), keys and values alike
        same = self.share_weights and target is source
        q = k if same else heads_first(self.lin_r(target), self.heads)
        attr, key = edge_features(self, edge_attr, graph, self.edge_dim), None
        if attr is not None and self.lin_edge is not None:
            if self.add_self_loops:
                attr = with_loops(attr, graph.index, q.shape[-2], k.shape[-2], self.fill_value)
            key = heads_first(self.lin_edge(attr), self.heads)
        attended = self.over_edges(q, k, k, self._score(), graph, self.add_self_loops, key)
        out = heads_last(attended.out, self.concat)
        if self.res is not None:
            out = out + self.res(target)
        if self.bias is not None:
            out = out + self.bias
        return self.answer(out, attended, graph, self.add_self_loops, return_attention_weights, return_map)

    def _score(self) -> GATv2:
        score = GATv2(slope=self.negative_slope)
        score.v = self.att[0]  # built at each call, so that it uses the current parameters
        return score
