"""The line graph: edges of a graph as nodes, adjacent if they share an end."""

import torch
from torch import Tensor

from regard.core.caches.tensor_cache import cached_by_tensor

from .input_checks import check_ids_of_edges


def line_graph(edge_index: Tensor) -> Tensor:
    """Pairs (2, P) of different edges that share a node, in both directions.

        {(e, f) : e != f, {source_e, target_e} and {source_f, target_f} meet}

    edge_index (2, E)  ->  (2, P) ids of edges, sorted by the second. An edge and its reverse are adjacent,
    and so are repeated edges. P grows with the squares of the degrees: a hub of degree d gives d^2 pairs.
    """
    check_ids_of_edges(torch.nn.Identity(), edge_index)
    return cached_by_tensor((edge_index,), "line graph", lambda: _line_graph(edge_index))


def _line_graph(edge_index: Tensor) -> Tensor:
    count, device = edge_index.shape[1], edge_index.device
    if count == 0:
        return torch.zeros(2, 0, dtype=torch.long, device=device)
    edge = torch.arange(count, device=device)
    second = edge_index[0] != edge_index[1]  # count a loop's node once
    node = torch.cat([edge_index[0], edge_index[1][second]]).long()
    edge = torch.cat([edge, edge[second]])
    order = torch.argsort(node, stable=True)
    node, edge = node[order], edge[order]
    degree = torch.bincount(node)
    each = degree[node]
    first = (degree.cumsum(0) - degree)[node]
    one = torch.repeat_interleave(edge, each)
    start = each.cumsum(0) - each
    place = torch.arange(one.shape[0], device=device) - torch.repeat_interleave(start - first, each)
    other = edge[place]
    apart = one != other
    key = torch.unique(one[apart] * count + other[apart])
    return torch.stack([key % count, key // count])
