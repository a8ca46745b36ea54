"""GRITConv: a graph transformer with scores from features of node pairs."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import SMALLEST, checked, number

from ..call_checks import reads
from .graph_transformer_conv import FeedForwardBlock
from .input_checks import edge_features
from .layer import GraphLayer
from .linear import heads_first, heads_last

SMALL = 1e-12  # below it the derivative of the square root is set to 0


class GRITConv(GraphLayer):
    """A transformer block over node pairs: pair features modulate the sum of both ends, and are updated.

        h_ij = relu(root((Q x_i + K x_j) * (W e_ij)) + B e_ij),   root(z) = sign(z) sqrt|z|
        w_i = softmax_j clamp(a . h_ij),   m_i = sum_j w_ij (V x_j + U h_ij),   y_i = m_i * (t_1 + log(1 + d_i) t_2)
        x = norm(x + O y),   x' = norm(x + FFN(x));   e' = norm(e + O_e h)

    x (N, channels), edge_index (2, P) the pairs that attend, edge_attr (P, channels), degree (N,) in the graph
    ->  x' (N, channels), e' (P, channels)

    edge_index, edge_attr and degree are those of `walk_encoding`, `relative` through a linear map; any edge list runs
    norm         "batch", "layer" or None
    return_map   adds the AttentionMap; map.edges() stands on the pairs

    Also known as: GRIT, graph inductive bias transformer.
    Ma et al. 2023. Without `degree` y_i is m_i * t_1. The weights are invariant to a common shift of a . h over a row,
    within the clamp.
    """

    @checked
    def __init__(
        self,
        channels: int,
        heads: int = 8,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        norm: str | None = "batch",
        bias: bool = False,
        clamp: float = 5.0,
        **options: Any,
    ):
        super().__init__(attn_dropout, **options)
        if channels % heads:
            raise ValueError(f"GRITConv(channels={channels}, heads={heads}): expected a multiple of heads.")
        if norm not in ("layer", "batch", None):
            raise ValueError(f'GRITConv(norm={norm!r}): expected "batch", "layer" or None.')
        self.channels, self.heads, self.clamp = channels, heads, number(clamp, "GRITConv", "clamp", SMALLEST)
        width = channels // heads
        self.lin_query = nn.Linear(channels, channels)
        self.lin_key, self.lin_value = (nn.Linear(channels, channels, bias) for _ in range(2))
        self.lin_edge = nn.Linear(channels, 2 * channels)
        self.score = nn.Parameter(torch.empty(heads, width))
        self.edge_value = nn.Parameter(torch.empty(heads, width, width))
        self.by_degree = nn.Parameter(torch.empty(2, channels))
        self.node = FeedForwardBlock(channels, dropout, norm, residual=True)
        self.edge_out, self.drop = nn.Linear(channels, channels), nn.Dropout(dropout)
        make: Any = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d, None: nn.Identity}[norm]
        self.edge_norm = make(channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for module in self.modules():
            if module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]
        for part in (self.lin_query, self.lin_key, self.lin_value, self.lin_edge):
            nn.init.xavier_normal_(part.weight)
        for vector in (self.score, self.edge_value, self.by_degree):
            nn.init.xavier_normal_(vector)

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_attr: Tensor | None = None,
        degree: Tensor | None = None,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        attr = edge_features(self, edge_attr, graph, self.channels)
        if attr is None:
            raise ValueError(f"GRITConv needs edge_attr (P, {self.channels}), the features of each pair.")
        q, k, v = (heads_first(part(x), self.heads) for part in (self.lin_query, self.lin_key, self.lin_value))
        j, i = graph.index[0], graph.index[1]
        scale, shift = (heads_first(part, self.heads) for part in self.lin_edge(attr).chunk(2, -1))  # (H, P, C)
        pair = (_root((q[:, i] + k[:, j]) * scale) + shift).relu()
        score = torch.einsum("hpc,hc->hp", pair, self.score).clamp(-self.clamp, self.clamp)
        one = q.new_ones(1, x.shape[0], 1).expand(self.heads, -1, -1)
        zero, value = torch.zeros_like(one), pair @ self.edge_value
        attended = self.over_edges(one, zero, v, "dot", graph, key=score[..., None], value=value)
        made = heads_last(attended.out)
        if degree is None:
            made = made * self.by_degree[0]
        else:
            made = made * (self.by_degree[0] + degree.to(x.dtype).log1p()[:, None] * self.by_degree[1])
        found = [self.node(x, made) if x.shape[0] else x]
        edges = attr + self.edge_out(self.drop(heads_last(pair)))
        found.append(self.edge_norm(edges) if edges.shape[0] else edges)
        if return_map:
            found.append(attended.map)
        return tuple(found)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads})"


def _root(z: Tensor) -> Tensor:
    """sign(z) sqrt|z|, with a gradient of 0 at 0."""
    there = z.abs() > SMALL
    return torch.where(there, z.sign() * z.abs().where(there, 1.0).sqrt(), 0.0)
