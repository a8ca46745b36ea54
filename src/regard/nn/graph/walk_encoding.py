"""Random walk encodings: relative probabilities for each pair of nodes, return probabilities for each node."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.arguments import whole

from .input_checks import check_ids_of_edges
from .same_graph_pairs import blocks_of, same_graph_pairs


@dataclass(frozen=True, eq=False)
class WalkEncoding:
    """pairs (2, P) of all nodes of a graph, relative (P, steps) for each of them, absolute (N, steps), degree (N,)."""

    pairs: Tensor
    relative: Tensor
    absolute: Tensor
    degree: Tensor


def walk_encoding(
    edge_index: Tensor, nodes: int, steps: int = 8, batch: Tensor | None = None, graphs: int | None = None
) -> WalkEncoding:
    """Relative random walk probabilities (RRWP): the probability to be at i after 0, 1, ..., steps - 1 steps from j.

        relative[j -> i] = [I, M, M^2, ...]_ji,   M = D^-1 A,   absolute[i] = relative[i -> i]

    edge_index (2, E), batch (N,) the graph of each node  ->  WalkEncoding, for `GRITConv`

    Ma et al. 2023; absolute from step 1 on is AddRandomWalkPE of torch_geometric. Rows of nodes without
    outgoing edges are 0 from step 1 on. Memory: the sum of squared graph sizes, times steps.
    """
    whole(steps, "walk_encoding", "steps")
    check_ids_of_edges(torch.nn.Identity(), edge_index)
    if batch is not None:
        batch = batch.to(edge_index.device)
    pairs = same_graph_pairs(nodes, batch, graphs).to(edge_index.device)
    adjacency, place = blocks_of(edge_index, pairs, nodes, batch, graphs)
    move = adjacency / adjacency.sum(-1, keepdim=True).clamp_min(1)
    at = torch.eye(move.shape[-1], dtype=move.dtype, device=move.device).expand_as(move)
    found = []
    for step in range(steps):
        found.append(at[place])
        at = at @ move if step + 1 < steps else at
    relative = torch.stack(found, -1).float()
    degree = torch.bincount(edge_index[0], minlength=nodes)
    return WalkEncoding(pairs, relative, relative[pairs[0] == pairs[1]], degree)
