"""GATConv: graph attention networks."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import checked, shown, whole
from regard.core.scores import GAT

from ..call_checks import reads
from .adjacency import Adjacency, pair_of
from .features import dropped
from .head_dot import read_heads
from .input_checks import edge_features
from .layer import GraphLayer
from .linear import LazyLinear, heads_first, heads_last, linear
from .self_loops import check_fill, with_loops


class GATConv(GraphLayer):
    """The weighted mean of the neighbours, with an additive score of both ends and of the edge.

        x'_i = sum_j w_ij W x_j,   w_i = softmax_j LeakyReLU(a_d . W x_i + a_s . W x_j + a_e . W_e e_ij)

    x (..., N, F), or (x_source, x_target) for a bipartite graph; edge_index (2, E), sources then targets, or an
    adjacency; edge_attr (E, D)  ->  (..., N, H C), or (..., N, C) with concat=False

    add_self_loops   each node has exactly one loop, as in torch_geometric; fill_value gives the features of loops
    residual, bias   W_r x_i and b, added after the heads are joined
    value_dropout    on W x_j as values only, not in the score, as in the authors' code
    return_attention_weights   (out, (edge_index, weights (E, H))), torch_geometric's form, before dropout
    return_map       (out, AttentionMap): map.edges() is in the caller's edge order, map.loops has the added self-loops

    Also known as: graph attention network, GAT layer.
    Velickovic et al. 2018. Arguments and parameters are those of torch_geometric.nn.GATConv. Static: all targets rank
    the sources alike (without edge features).
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
        residual: bool = False,
        value_dropout: float = 0.0,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        check_fill("GATConv", fill_value)
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.negative_slope, self.add_self_loops, self.edge_dim = negative_slope, add_self_loops, edge_dim
        self.fill_value, self.residual, self.value_dropout = fill_value, residual, value_dropout
        self.lin = self.lin_src = self.lin_dst = None
        if isinstance(in_channels, int):
            self.lin = linear(in_channels, heads * out_channels, bias=False)
        else:
            self.lin_src = linear(in_channels[0], heads * out_channels, bias=False)
            self.lin_dst = linear(in_channels[1], heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = None if edge_dim is None else linear(edge_dim, heads * out_channels, bias=False)
        self.att_edge = None if edge_dim is None else nn.Parameter(torch.empty(1, heads, out_channels))
        width = out_channels * (heads if concat else 1)
        last = in_channels if isinstance(in_channels, int) else in_channels[1]
        self.res = linear(last, width, bias=False) if residual else None
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin(
            (self.lin, self.lin_src, self.lin_dst, self.lin_edge, self.res), (self.att_src, self.att_dst, self.att_edge)
        )

    @reads()
    def forward(
        self,
        x: "Tensor | tuple[Tensor, Tensor | None]",
        edge_index: Any = None,
        edge_attr: Tensor | None = None,
        size: "tuple[int, int] | None" = None,
        return_attention_weights: bool | None = None,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        source, target = pair_of(x)
        values, queries = self._projected(source, target)
        if queries is values:
            values, (k, q) = read_heads(values, self.att_src[0], self.att_dst[0])  # (..., N, H)
        else:
            values, (k,) = read_heads(values, self.att_src[0])
            n = self._targets(graph, size, k.shape[-2])
            q = k.new_zeros((*k.shape[:-2], n, self.heads))
            if queries is not None:
                _, (q,) = read_heads(queries, self.att_dst[0])
            else:
                graph = graph.within(k.shape[-2], n)
        q, k = (x.transpose(-1, -2).unsqueeze(-1) for x in (q, k))  # (..., H, n, 1) and (..., H, m, 1)
        values = heads_first(values, self.heads)
        key = self._edge_term(edge_features(self, edge_attr, graph, self.edge_dim), graph.index, q, k)
        values = dropped(values, self.value_dropout, self.training)
        attended = self.over_edges(q, k, values, GAT(slope=self.negative_slope), graph, self.add_self_loops, key)
        out = heads_last(attended.out, self.concat)
        if self.res is not None and target is not None:
            out = out + self.res(target)
        if self.bias is not None:
            out = out + self.bias
        return self.answer(out, attended, graph, self.add_self_loops, return_attention_weights, return_map)

    def _targets(self, graph: Adjacency, size: "tuple[int, int] | None", sources: int) -> int:
        """Number of targets without features: from size= (sources, targets), or from the adjacency."""
        if size is not None:
            if not isinstance(size, (tuple, list)) or len(size) != 2 or size[0] not in (None, sources):
                raise ValueError(f"GATConv: size={shown(size)}, expected (sources, targets) with {sources} sources.")
            return whole(size[1], "GATConv", "size", 0)
        return sources if graph.size is None else graph.size[0]

    def _projected(self, source: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """W x of both ends, (..., N, H C)."""
        first, second = (self.lin, self.lin) if self.lin is not None else (self.lin_src, self.lin_dst)
        assert first is not None and second is not None
        values = first(source)
        if target is source and first is second:
            return values, values
        return values, None if target is None else second(target)

    def _edge_term(self, attr: Tensor | None, index: Tensor, q: Tensor, k: Tensor) -> Tensor | None:
        """a_e . W_e e for each edge, (H, rows, 1); a_e and W_e are multiplied first, which avoids an E x H C tensor."""
        if attr is None or self.lin_edge is None or self.att_edge is None:
            return None
        if isinstance(self.lin_edge, LazyLinear):
            self.lin_edge(attr[:1])  # initialises the lazy linear layer
        if self.add_self_loops:
            attr = with_loops(attr, index, q.shape[-2], k.shape[-2], self.fill_value)
        matrix = self.lin_edge.weight.view(self.heads, self.out_channels, -1)
        return (attr @ torch.einsum("hcd,hc->dh", matrix, self.att_edge[0])).t().unsqueeze(-1)
