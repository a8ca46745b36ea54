"""Attention over the nodes of each graph: nodes are sources, graphs are targets."""

import torch
from torch import Tensor

from regard.core.arguments import shown, whole
from regard.core.arguments.id_bounds import IdNames, ids_within, raise_flagged
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.structures.edges import Edges

from ..call_checks import is_ids

BATCH = IdNames(
    "batch", "node", "batch holds the graph id of each node, counted from 0; pass the number of graphs.", ("graph",)
)


def membership(batch: Tensor, graphs: int) -> Edges:
    """Edges from node i to graph batch[i], cached by tensor. batch need not be sorted; graphs may be empty."""
    nodes = batch.shape[0]
    index = cached_by_tensor(
        (batch,), "membership", lambda: torch.stack([torch.arange(nodes, device=batch.device), batch])
    )
    return Edges(index, (graphs, nodes))


def graphs_of(
    nodes: int,
    batch: Tensor | None,
    ptr: Tensor | None,
    count: int | None,
    device: torch.device,
    called: tuple[str, str] = ("batch", "graphs"),
) -> tuple[Tensor, int]:
    """The graph of each node and the number of graphs, from a batch vector, from pointers, or one graph for all."""
    first, second = called
    for name, given in ((first, batch), ("ptr", ptr)):
        if given is not None and (not isinstance(given, Tensor) or given.ndim != 1 or not is_ids(given)):
            raise TypeError(
                f"{name} is {shown(given)}, expected a 1-D integer tensor: the graph of each node, or "
                "where each graph begins (ptr)."
            )
    if count is not None:
        whole(count, "pooling", second, 0)
    if batch is not None and batch.shape[0] != nodes:
        raise ValueError(f"{first} has {batch.shape[0]} rows, but there are {nodes} nodes: one graph for each node.")
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
