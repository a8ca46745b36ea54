"""SAGPooling: self-attention graph pooling."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import SMALLEST, checked, number, shown
from regard.core.attend import attend

from ..call_checks import reads
from .adjacency import Adjacency
from .input_checks import check_ids, check_ids_of_edges, check_nodes
from .layer import GraphLayer
from .linear import linear
from .pooling import graphs_of, membership


class GraphConv(GraphLayer):
    """The sum of the neighbours beside the node itself: x'_i = W_1 x_i + W_2 sum_j x_j + b. Morris et al. 2019.

    Parameters as in torch_geometric.nn.GraphConv. The sum is the degree times uniform attention.
    """

    @checked
    def __init__(self, in_channels: int, out_channels: int, aggr: str = "add", bias: bool = True, **options: Any):
        super().__init__(aggr=aggr, **options)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.lin_rel = linear(in_channels, out_channels, bias, glorot=False)
        self.lin_root = linear(in_channels, out_channels, bias=False, glorot=False)
        self.align = "uniform"

    def reset_parameters(self) -> None:
        self.lin_rel.reset_parameters()
        self.lin_root.reset_parameters()

    @reads()
    def forward(self, x: Tensor, edge_index: Any = None) -> Tensor:
        graph = self.read(edge_index, x)
        v = x.unsqueeze(-3)
        zero = v[..., :1] * 0
        attended = self.over_edges(zero, zero, v, "dot", graph)
        degree = attended.map.graph.start.diff()[:, None].to(x.dtype)  # type: ignore[attr-defined]
        return self.lin_rel(attended.out.squeeze(-3) * degree) + self.lin_root(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels})"


class SelectTopK(nn.Module):
    """The top nodes of each graph: y = act(x . p / |p|), the top ratio of them; or softmax(x . p) above min_score."""

    @checked
    def __init__(
        self,
        in_channels: int,
        ratio: "float | int | None" = 0.5,
        min_score: float | None = None,
        act: "str | Callable[[Tensor], Tensor]" = "tanh",
    ):
        super().__init__()
        self.in_channels, self.ratio, self.min_score = in_channels, ratio, min_score
        self.act: Any = getattr(torch, act, None) if isinstance(act, str) else act
        if not callable(self.act):
            raise ValueError(f"nonlinearity={shown(act)}: expected a function, or the name of one of torch's.")
        self.weight = nn.Parameter(torch.empty(1, in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.in_channels**-0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        """The selected nodes, highest score first within each graph, and their scores."""
        score = (x * self.weight).sum(-1)
        if self.min_score is None:
            score = self.act(score / self.weight.norm(p=2, dim=-1))
        else:
            score = _shares(score, batch)
        with torch.no_grad():
            chosen = self._best(score, batch)
        return chosen, score[chosen]

    def _best(self, score: Tensor, batch: Tensor) -> Tensor:
        _, graphs = graphs_of(batch.shape[0], batch, None, None, batch.device)
        size = torch.bincount(batch, minlength=graphs)
        if self.min_score is not None:  # at least the best of each graph
            best = score.new_full((graphs,), float("-inf")).scatter_reduce(0, batch, score, "amax")
            return (score > (best[batch] - 1e-7).clamp(max=self.min_score)).nonzero()[:, 0]
        assert self.ratio is not None
        many = size.new_full(size.shape, int(self.ratio)) if self.ratio >= 1 else (self.ratio * size).ceil().long()
        order = torch.argsort(score, descending=True, stable=True)
        order = order[torch.argsort(batch[order], stable=True)]
        place = torch.arange(order.shape[0], device=order.device) - (size.cumsum(0) - size)[batch[order]]
        return order[place < many[batch[order]]]


def _shares(score: Tensor, batch: Tensor) -> Tensor:
    """softmax over the nodes of each graph, (N,)"""
    batch, graphs = graphs_of(batch.shape[0], batch, None, None, batch.device)
    k = score[None, :, None]
    amap = attend(k.new_ones(1, graphs, 1), k, k, "dot", over=membership(batch, graphs)).map
    return amap.edges(grad=torch.is_grad_enabled())[0]


class SAGPooling(nn.Module):
    """Keeps the top nodes by the scores of a graph layer, gated by these scores.

        y = GNN(x, A);   i = top ceil(ratio N) of each graph;   x' = x_i tanh(y_i),   A' = A_ii
        min_score: y = softmax(GNN(x, A)) over each graph;   i = y > min_score;   x' = x_i y_i

    x (N, F), edge_index (2, E), edge_attr, batch (N,)  ->  x', edge_index', edge_attr', batch', perm, score

    GNN          GraphConv unless given: any class called as GNN(in_channels, 1, ...), ours or torch_geometric's
    attn         features for the scores, x unless given

    Also known as: SAGPool, self-attention graph pooling.
    Lee et al. 2019; Knyazev et al. 2019. Arguments and parameters are those of torch_geometric.nn.SAGPooling. The
    selection has no gradient: the scores learn through the gate alone. Ties keep the order of the nodes.
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        ratio: "float | int | None" = 0.5,
        GNN: Any = GraphConv,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: "str | Callable[[Tensor], Tensor]" = "tanh",
        **options: Any,
    ):
        super().__init__()
        self.in_channels, self.ratio, self.min_score, self.multiplier = in_channels, ratio, min_score, multiplier
        if not callable(GNN):
            raise TypeError(f"SAGPooling(GNN={shown(GNN)}): expected a class called as GNN(in_channels, 1, ...).")
        if ratio is not None or min_score is None:  # with min_score alone there is no ratio
            number(ratio, "SAGPooling", "ratio", SMALLEST)
        self.gnn = GNN(in_channels, 1, **options)
        self.select = SelectTopK(1, ratio, min_score, nonlinearity)

    def reset_parameters(self) -> None:
        self.gnn.reset_parameters()
        self.select.reset_parameters()

    @reads()
    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor]:
        check_nodes(self, x, self.in_channels if attn is None else -1)
        check_ids_of_edges(self, edge_index)
        if edge_attr is not None and (edge_attr.ndim == 0 or edge_attr.shape[0] != edge_index.shape[1]):
            raise ValueError(
                f"SAGPooling: edge_attr is {shown(edge_attr)}, expected a row for each of {edge_index.shape[1]} edges."
            )
        if batch is not None:
            check_ids(self, batch, "batch", "the graph of each node", x.shape[0])
        edge_index = Adjacency(edge_index, None, edge_index).within(x.shape[0], x.shape[0]).index
        batch = edge_index.new_zeros(x.shape[0]) if batch is None else batch
        seen = x if attn is None else attn[:, None] if attn.ndim == 1 else attn
        if attn is not None:
            check_nodes(self, seen, self.in_channels, "attn")
            if seen.shape[0] != x.shape[0]:
                raise ValueError(f"SAGPooling: attn is {shown(attn)}, expected a row for each of {x.shape[0]} nodes.")
        perm, score = self.select(self.gnn(seen, edge_index), batch)
        pooled = x[perm] * score[:, None]
        pooled = pooled if self.multiplier == 1 else self.multiplier * pooled
        name = perm.new_full((x.shape[0],), -1)
        name[perm] = torch.arange(perm.shape[0], device=perm.device)
        source, target = name[edge_index[0]], name[edge_index[1]]
        stays = (source >= 0) & (target >= 0)
        kept = torch.stack([source[stays], target[stays]])
        return pooled, kept, None if edge_attr is None else edge_attr[stays], batch[perm], perm, score

    def __repr__(self) -> str:
        how = f"ratio={self.ratio}" if self.min_score is None else f"min_score={self.min_score}"
        gnn = type(self.gnn).__name__
        return f"{type(self).__name__}({gnn}, {self.in_channels}, {how}, multiplier={self.multiplier})"
