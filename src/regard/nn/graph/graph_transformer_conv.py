"""GraphTransformerConv: a transformer block with attention over neighbours."""

from typing import Any

from torch import Tensor, nn

from regard.core.arguments import SMALLEST, checked, number
from regard.core.scores import Clamp, ScaledDot

from ..call_checks import reads
from .input_checks import edge_features
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear


class GraphTransformerConv(GraphLayer):
    """A transformer block: attention over neighbours, gated by edge features, then feed-forward networks.

        s_ij = (Q x_i) * (K x_j) * (E e_ij) / sqrt(C)  (a vector),   w_i = softmax_j clamp(sum s_ij, -5, 5)
        x = norm(x + O_x [sum_j w_ij V x_j]),   x' = norm(x + FFN(x));   e = norm(e + O_e s),   e' = norm(e + FFN(e))

    x (N, F), edge_index (2, E) or an adjacency, edge_attr (E, F)  ->  x' (N, F), and e' (E, F) where edge_dim is given

    norm         "layer", "batch" or None;  residual=False leaves out the sums with the input
    return_map   adds the AttentionMap at the end

    Also known as: graph transformer.
    Dwivedi & Bresson 2021. With E e = 1 edges have no effect; within the clamp the weights are plain softmax.
    """

    @checked
    def __init__(
        self,
        channels: int,
        heads: int = 8,
        edge_dim: int | None = None,
        dropout: float = 0.0,
        norm: str | None = "layer",
        residual: bool = True,
        bias: bool = False,
        clamp: float = 5.0,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        if channels % heads:
            raise ValueError(f"GraphTransformerConv(channels={channels}, heads={heads}): expected a multiple of heads.")
        if norm not in ("layer", "batch", None):
            raise ValueError(f'GraphTransformerConv(norm={norm!r}): expected "layer", "batch" or None.')
        self.channels, self.heads, self.edge_dim = channels, heads, edge_dim
        self.residual, self.clamp = residual, number(clamp, "GraphTransformerConv", "clamp", SMALLEST)
        self.lin_query, self.lin_key, self.lin_value = (linear(channels, channels, bias) for _ in range(3))
        self.lin_edge = None if edge_dim is None else linear(edge_dim, channels, bias)
        self.node = FeedForwardBlock(channels, dropout, norm, residual)
        self.edge = (
            None if edge_dim is None else FeedForwardBlock(channels, dropout, norm, residual and edge_dim == channels)
        )

    def reset_parameters(self) -> None:
        for module in self.modules():
            if module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()  # type: ignore[operator]

    @reads()
    def forward(
        self, x: Tensor, edge_index: Any = None, edge_attr: Tensor | None = None, return_map: bool = False
    ) -> Any:
        graph = self.read(edge_index, x)
        attr = edge_features(self, edge_attr, graph, self.edge_dim)
        if self.lin_edge is not None and attr is None:
            raise ValueError(f"GraphTransformerConv(edge_dim={self.edge_dim}) needs edge_attr (E, {self.edge_dim}).")
        q, k, v = (heads_first(part(x), self.heads) for part in (self.lin_query, self.lin_key, self.lin_value))
        key = None if attr is None or self.lin_edge is None else heads_first(self.lin_edge(attr), self.heads)
        attended = self.over_edges(q, k, v, ScaledDot() | Clamp(self.clamp), graph, key=key, join="mul")
        found: list[Any] = [self.node(x, heads_last(attended.out))]
        if key is not None and self.edge is not None and attr is not None:
            j, i = graph.index[0], graph.index[1]
            vectors = q[..., i, :] * k[..., j, :] * key * q.shape[-1] ** -0.5  # (H, E, C)
            found.append(self.edge(attr, heads_last(vectors)))
        if return_map:
            found.append(attended.map)
        return found[0] if len(found) == 1 else tuple(found)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads})"


class FeedForwardBlock(nn.Module):
    """The part after attention: x = norm(x + O h), x' = norm(x + W_2 relu(W_1 x))."""

    def __init__(self, channels: int, dropout: float, norm: str | None, residual: bool):
        super().__init__()
        self.residual = residual
        self.out = nn.Linear(channels, channels)
        self.wide, self.narrow = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)
        make: Any = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d, None: nn.Identity}[norm]
        self.norm_1, self.norm_2 = make(channels), make(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        h = self.out(self.dropout(h))
        h = self.norm_1(x + h if self.residual else h)
        more = self.narrow(self.dropout(self.wide(h).relu()))
        return self.norm_2(h + more if self.residual else more)
