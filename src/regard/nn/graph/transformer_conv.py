"""TransformerConv: scaled dot-product attention over edges (UniMP)."""

from typing import Any

import torch
from torch import Tensor

from regard.core.arguments import checked

from ..call_checks import reads
from .input_checks import edge_features
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear


class TransformerConv(GraphLayer):
    """Scaled dot-product attention over neighbours, with edge features in keys and values, and a gated skip.

        x'_i = W_1 x_i + sum_j w_ij (W_2 x_j + W_e e_ij),   w_i = softmax_j (W_3 x_i) . (W_4 x_j + W_e e_ij) / sqrt(C)
        beta: x'_i = b_i W_1 x_i + (1 - b_i) m_i,   b_i = sigmoid(w . [m_i; W_1 x_i; m_i - W_1 x_i])

    x (..., N, F), or (x_source, x_target) for a bipartite graph; edge_index (2, E), sources then targets, or an
    adjacency; edge_attr (E, D)  ->  (..., N, H C), or (..., N, C) with concat=False

    root_weight=False leaves out W_1 x_i (and beta). No self-loops are added. What is returned as in GATConv.

    Also known as: UniMP.
    Shi et al. 2021. Arguments and parameters are those of torch_geometric.nn.TransformerConv. Invariant to adding one
    vector to all keys.
    """

    @checked
    def __init__(
        self,
        in_channels: "int | tuple[int, int]",
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        root_weight: bool = True,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.beta, self.root_weight, self.edge_dim = beta and root_weight, root_weight, edge_dim
        first, last = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        wide, width = heads * out_channels, out_channels * (heads if concat else 1)
        self.lin_key = linear(first, wide, bias, glorot=False)
        self.lin_query = linear(last, wide, bias, glorot=False)
        self.lin_value = linear(first, wide, bias, glorot=False)
        self.lin_edge = None if edge_dim is None else linear(edge_dim, wide, bias=False, glorot=False)
        self.lin_skip = linear(last, width, bias, glorot=False)
        self.lin_beta = linear(3 * width, 1, bias=False, glorot=False) if self.beta else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin((self.lin_key, self.lin_query, self.lin_value, self.lin_edge, self.lin_skip, self.lin_beta))

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
        q, k, v = (
            heads_first(part(end), self.heads)
            for part, end in ((self.lin_query, target), (self.lin_key, source), (self.lin_value, source))
        )
        attr, edge = edge_features(self, edge_attr, graph, self.edge_dim), None
        if self.lin_edge is not None:
            if attr is None:
                raise ValueError(f"TransformerConv(edge_dim={self.edge_dim}) needs edge_attr (E, {self.edge_dim}).")
            edge = heads_first(self.lin_edge(attr), self.heads)
        # made before the attention, so that its gradient waits until that of the attention is done: one row-sized less
        skip = self.lin_skip(target) if self.root_weight else None
        attended = self.over_edges(q, k, v, "scaled_dot", graph, False, edge, edge)
        out = heads_last(attended.out, self.concat)
        if skip is not None:
            if self.lin_beta is None:
                out = out + skip
            else:
                beta = self.lin_beta(torch.cat([out, skip, out - skip], -1)).sigmoid()
                out = beta * skip + (1 - beta) * out
        return self.answer(out, attended, graph, False, return_attention_weights, return_map)
