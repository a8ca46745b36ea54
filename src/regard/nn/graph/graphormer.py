"""Graphormer: attention among all nodes, with biases by shortest-path distance."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.arguments import checked, shown
from regard.core.attend import attend
from regard.core.scores import PairBias, ScaledDot
from regard.core.structures import Structure

from ..call_checks import is_ids, reads
from .adjacency import Adjacency
from .input_checks import check_nodes
from .linear import heads_first, heads_last


class GraphormerAttention(nn.Module):
    """Attention among all nodes with a learned bias for each shortest-path distance.

        s_ij = q_i . k_j / sqrt(d) + b_h[distance(i, j)] + c_h,ij

    x (..., N, dim), distance (..., N, N) int, 0 to limit, limit + 1 where there is no path; more: c (..., H, N, N)
    ->  (..., N, dim)

    virtual_node   the first row of x is a node connected to all others, with a bias of its own; distance excludes it
    over           Padding(lengths) for a padded batch, or any other structure
    return_map     (out, AttentionMap)

    Ying et al. 2021. With zero biases it is a transformer layer. One layer sees the whole graph.
    """

    @checked
    def __init__(
        self, dim: int, heads: int, limit: int = 20, virtual_node: bool = False, dropout: float = 0.0, bias: bool = True
    ):
        super().__init__()
        if dim % heads:
            raise ValueError(f"{type(self).__name__}(dim={dim}, heads={heads}): expected a multiple of heads.")
        self.dim, self.heads, self.limit, self.dropout = dim, heads, limit, dropout
        self.lin_query, self.lin_key, self.lin_value = (nn.Linear(dim, dim, bias) for _ in range(3))
        self.lin_out = nn.Linear(dim, dim, bias)
        self.by_distance = nn.Parameter(torch.zeros(heads, limit + 2))
        self.virtual = nn.Parameter(torch.zeros(heads, 1)) if virtual_node else None

    @reads()
    def forward(
        self,
        x: Tensor,
        distance: Tensor,
        more: Tensor | None = None,
        over: Structure | None = None,
        return_map: bool = False,
    ) -> Any:
        check_nodes(self, x, self.dim, by="dim")
        self._check_distance(x, distance)
        nodes = {(x.shape[-2],) * 2, tuple(distance.shape[-2:])}
        if more is not None and (not more.is_floating_point() or tuple(more.shape[-2:]) not in nodes):
            raise ValueError(
                f"GraphormerAttention: more is {shown(more)}, expected biases (..., {self.heads}, N, "
                "N), a number for each pair of nodes."
            )
        q, k, v = (heads_first(part(x), self.heads) for part in (self.lin_query, self.lin_key, self.lin_value))
        distance = distance.clamp(0, self.limit + 1)
        bias = self.by_distance[:, distance].movedim(0, -3)  # (..., H, N, N)
        bias = bias if more is None else bias + more
        if self.virtual is not None:
            bias = torch.nn.functional.pad(bias, (1, 0, 1, 0))
            first = torch.zeros(bias.shape[-2:], dtype=bias.dtype, device=bias.device)
            first[0] = first[:, 0] = 1
            bias = bias + first * self.virtual[:, :, None]
        dropout = self.dropout if self.training else 0.0
        attended = attend(q, k, v, ScaledDot() | PairBias(bias), over=over, dropout=dropout)
        out = self.lin_out(heads_last(attended.out))
        return (out, attended.map) if return_map else out

    def _check_distance(self, x: Tensor, distance: Any) -> None:
        nodes = x.shape[-2] - (self.virtual is not None)
        told = isinstance(distance, Tensor) and is_ids(distance) and distance.ndim >= 2
        if not told or tuple(distance.shape[-2:]) != (nodes, nodes):
            raise ValueError(
                f"GraphormerAttention: distance is {shown(distance)}, expected integers (..., {nodes}, "
                f"{nodes}) for the {nodes} nodes of x (virtual_node={self.virtual is not None}): "
                "shortest_paths(edge_index, nodes)[0]."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dim}, heads={self.heads}, limit={self.limit})"


class DegreeEncoding(nn.Module):
    """z_in[in-degree] + z_out[out-degree] for each node, (N, dim), to be added to its features. Degrees are clipped."""

    @checked
    def __init__(self, dim: int, most: int = 64):
        super().__init__()
        self.inward, self.outward = nn.Embedding(most + 1, dim), nn.Embedding(most + 1, dim)

    def forward(self, edge_index: Tensor, nodes: int) -> Tensor:
        most = self.inward.num_embeddings - 1
        edge_index = Adjacency(edge_index, None, edge_index).within(nodes, nodes).index
        out, into = (torch.bincount(ends, minlength=nodes).clamp(max=most) for ends in edge_index)
        return self.inward(into) + self.outward(out)


class PathEncoding(nn.Module):
    """c_h,ij = mean over the edges e_1, e_2, ... of the shortest path from i to j of x_e . w_h,place, (H, N, N).

    edge_attr (E, D), path (N, N, limit) edge ids padded with -1, from `shortest_paths`.
    """

    @checked
    def __init__(self, edge_dim: int, heads: int, limit: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(limit, heads, edge_dim))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, edge_attr: Tensor, path: Tensor) -> Tensor:
        terms = torch.einsum("ed,lhd->leh", edge_attr, self.weight)  # contribution of edge e at position l of a path
        there = path >= 0
        total = edge_attr.new_zeros((*path.shape[:2], self.weight.shape[1]))
        for place in range(min(path.shape[-1], terms.shape[0])):
            total = total + terms[place][path[..., place].clamp_min(0)] * there[..., place, None]
        return (total / there.sum(-1, keepdim=True).clamp_min(1)).permute(2, 0, 1)


def shortest_paths(edge_index: Tensor, nodes: int, limit: int = 20) -> tuple[Tensor, Tensor]:
    """Shortest paths from i to j, up to `limit` steps: distances and edges.

    edge_index (2, E)  ->  distance (N, N), limit + 1 where there is no path; path (N, N, limit) edge ids, then -1.
    Ties go to the path whose last edge has the smallest id, so edge encodings are exactly equivariant only where
    shortest paths are unique. N^2 memory, limit steps.
    """
    device, count = edge_index.device, edge_index.shape[1]
    edge_index = Adjacency(edge_index, None, edge_index).within(nodes, nodes).index
    source, target = edge_index[0], edge_index[1]
    distance = torch.full((nodes, nodes), limit + 1, dtype=torch.long, device=device)
    distance.fill_diagonal_(0)
    path = torch.full((nodes, nodes, limit), -1, dtype=torch.long, device=device)
    for step in range(1, limit + 1):
        reached = distance[:, source] == step - 1  # (N, E): a path from i ends at the source of e
        last = torch.where(reached, torch.arange(count, device=device), count)
        best = torch.full((nodes, nodes), count, dtype=torch.long, device=device)
        best.scatter_reduce_(1, target.expand(nodes, count), last, "amin")
        new = (best < count) & (distance > limit)
        if not new.any():
            break
        i, j = new.nonzero(as_tuple=True)
        edge = best[i, j]
        path[i, j] = path[i, source[edge]]
        path[i, j, step - 1] = edge
        distance[i, j] = step
    return distance, path
