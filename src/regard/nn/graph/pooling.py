"""Attention over the nodes of each graph: nodes are sources, graphs are targets."""

import torch
from torch import Tensor

from ...core.edges import Edges
from ...core.ids import Names, ids_within, raise_flagged
from ...core.remember import remembered

BATCH = Names("batch", "node", "Each node has the number of its graph, counted from 0; say how many graphs there are.",
              ("graph",))  # fmt: skip


def membership(batch: Tensor, graphs: int) -> Edges:
    """Node i -> graph batch[i], made once for the same batch vector. batch need not be sorted; graphs may be empty."""
    nodes = batch.shape[0]
    index = remembered((batch,), "membership", lambda: torch.stack([torch.arange(nodes, device=batch.device), batch]))
    return Edges(index, (graphs, nodes))


def graphs_of(
    nodes: int, batch: Tensor | None, ptr: Tensor | None, count: int | None, device: torch.device
) -> tuple[Tensor, int]:
    """The graph of each node and the number of graphs, from a batch vector, from pointers, or one graph for all."""
    if batch is None and ptr is not None:
        degree = ptr.diff()
        return torch.repeat_interleave(torch.arange(degree.shape[0], device=device), degree, output_size=nodes), (
            degree.shape[0] if count is None else count
        )
    if batch is None:
        return torch.zeros(nodes, dtype=torch.long, device=device), 1 if count is None else count
    if count is None:
        count = int(batch.max()) + 1 if batch.numel() else 0
        raise_flagged(device)
    return ids_within(batch, (count,), BATCH), count
