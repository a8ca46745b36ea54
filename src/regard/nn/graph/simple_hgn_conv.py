"""SimpleHGNConv: graph attention with the edge type in the score."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.arguments import checked, shown
from regard.core.arguments.id_bounds import ids_within
from regard.core.attend import attend
from regard.core.scores import GAT
from regard.core.structures.edges import Edges

from ..call_checks import reads
from .adjacency import TYPES
from .input_checks import check_ids
from .layer import GraphLayer
from .linear import heads_first, heads_last, linear


class SimpleHGNConv(GraphLayer):
    """GATConv with a learned embedding of the edge type in the score, and residual attention from the previous layer.

        s_ij = LeakyReLU(a_d . W x_i + a_s . W x_j + a_r . W_r r_type(ij))
        w = (1 - beta) softmax(s) + beta w_before,   x'_i = sum_j w_ij W x_j (+ W_0 x_i), optionally normalised

    x (N, F), edge_index (2, E) or an adjacency, edge_type (E,), previous (H, E)  ->  (N, H C), or (N, C)

    previous           the weights of the previous layer, without a gradient, from `return_weights=True`
    return_weights     (out, weights (H, E)) after mixing
    return_map         (out, AttentionMap) of this layer's own attention, before mixing

    Also known as: Simple-HGN.
    Lv et al. 2021. With beta = 0 and W_r = 0 it is GATConv without self-loops; self-loops need a type of their own.
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        relation_channels: int = 64,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.05,
        dropout: float = 0.0,
        beta: float = 0.05,
        residual: bool = False,
        normalize: bool = False,
        bias: bool = True,
        **options: Any,
    ):
        super().__init__(dropout, **options)
        if not 0 <= beta < 1:
            raise ValueError(
                f"SimpleHGNConv(beta={beta}): expected the share of the previous layer's weights, 0 <= beta < 1."
            )
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.num_relations, self.negative_slope = num_relations, negative_slope
        self.beta, self.residual, self.normalize = beta, residual, normalize
        width = out_channels * (heads if concat else 1)
        self.lin = linear(in_channels, heads * out_channels, bias=False)
        self.relation = nn.Parameter(torch.empty(num_relations, relation_channels))
        self.lin_relation = linear(relation_channels, heads * relation_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_relation = nn.Parameter(torch.empty(1, heads, relation_channels))
        self.res = linear(in_channels, width, bias=False) if residual else None
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.begin(
            (self.lin, self.lin_relation, self.res), (self.relation, self.att_src, self.att_dst, self.att_relation)
        )

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_type: Tensor | None = None,
        previous: Tensor | None = None,
        return_weights: bool = False,
        return_map: bool = False,
    ) -> Any:
        graph = self.read(edge_index, x)
        edge_type = check_ids(self, edge_type, "edge_type", "the relation of each edge", graph.index.shape[1])
        if previous is not None and (
            not previous.is_floating_point() or tuple(previous.shape) != (self.heads, graph.index.shape[1])
        ):
            raise ValueError(
                f"SimpleHGNConv: previous is {shown(previous)}, expected the weights of the previous layer, "
                f"({self.heads}, {graph.index.shape[1]}): return_weights=True gives them."
            )
        v = heads_first(self.lin(x), self.heads)  # (H, N, C)
        q, k = ((v * a.transpose(0, 1)).sum(-1, keepdim=True) for a in (self.att_dst, self.att_src))
        types = heads_first(self.lin_relation(self.relation), self.heads) * self.att_relation.transpose(0, 1)
        key = types.sum(-1, keepdim=True)[:, ids_within(edge_type, (self.num_relations,), TYPES)]  # (H, E, 1)
        attended = self.over_edges(q, k, v, GAT(slope=self.negative_slope), graph, key=key)
        out = attended.out
        if previous is not None and self.beta:
            out = (1 - self.beta) * out + self.beta * self._again(previous, v, graph.index)
        out = heads_last(out, self.concat)
        if self.res is not None:
            out = out + self.res(x)
        out = out if self.bias is None else out + self.bias
        out = F.normalize(out, dim=-1) if self.normalize else out
        if return_weights:
            weights = attended.map.edges()
            return out, weights if previous is None else (1 - self.beta) * weights + self.beta * previous.detach()
        return (out, attended.map) if return_map else out

    def _again(self, previous: Tensor, v: Tensor, index: Tensor) -> Tensor:
        """The values averaged by the previous layer's weights: the softmax of their logarithms."""
        nothing = v.new_zeros((*v.shape[:-1], 1))
        over = Edges(index, (v.shape[-2], v.shape[-2]), key=previous.detach().log()[..., None])
        return attend(nothing, nothing, v, GAT(slope=1.0), over=over, backend=self.backend).out
