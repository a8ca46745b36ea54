"""All pairs of nodes of the same graph as edges: dense graph transformers without padding."""

import torch
from torch import Tensor

from .pooling import graphs_of


def same_graph_pairs(nodes: int, batch: Tensor | None = None, graphs: int | None = None) -> Tensor:
    """(2, P): sources and targets of every pair of nodes of one graph, loops too; P is the sum of squares of the sizes.

    batch (N,) the graph of each node, in any order; one graph unless given. Pairs are grouped by target.
    """
    device = torch.device("cpu") if batch is None else batch.device
    ids, count = graphs_of(nodes, batch, None, graphs, device)
    size = torch.bincount(ids, minlength=count)
    order = torch.argsort(ids, stable=True)
    first, each = (size.cumsum(0) - size)[ids], size[ids]
    target = torch.repeat_interleave(torch.arange(nodes, device=device), each)
    start = each.cumsum(0) - each
    place = torch.arange(target.shape[0], device=device) - start[target]
    return torch.stack([order[first[target] + place], target])


def blocks_of(
    edge_index: Tensor, pairs: Tensor, nodes: int, batch: Tensor | None, graphs: int | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Adjacency of each graph (graphs, M, M), M nodes of the largest, [source, target], repeated edges summed; and
    the index of a pair in it."""
    ids, count = graphs_of(nodes, batch, None, graphs, edge_index.device)
    size = torch.bincount(ids, minlength=count)
    order = torch.argsort(ids, stable=True)
    place = torch.empty_like(ids)
    place[order] = torch.arange(nodes, device=ids.device) - (size.cumsum(0) - size)[ids[order]]
    most = int(size.max()) if count else 0
    adjacency = torch.zeros(count, most, most, dtype=torch.float64, device=ids.device)
    source, target = edge_index[0], edge_index[1]
    if bool((ids[source] != ids[target]).any()):
        raise ValueError("edge_index joins nodes of different graphs of batch: expected edges inside a graph.")
    one = torch.ones(edge_index.shape[1], dtype=torch.float64, device=ids.device)
    adjacency.index_put_((ids[source], place[source], place[target]), one, accumulate=True)
    return adjacency, (ids[pairs[0]], place[pairs[0]], place[pairs[1]])
