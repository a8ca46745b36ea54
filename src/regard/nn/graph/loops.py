"""Edge features where self-loops replace those of the caller."""

import torch
from torch import Tensor

from ...core.edges import Neighbours
from ...core.remember import remembered

REDUCTIONS = {"mean": "mean", "add": "sum", "sum": "sum", "min": "min", "max": "max", "mul": "prod"}


def with_loops(attr: Tensor, index: Tensor, n: int, m: int, fill: "float | Tensor | str") -> Tensor:
    """Edge features (E, D) for Edges(..., self_loops=True): (E + nodes, D), nodes = min(n, m).

    Loops are filled as torch_geometric does: a number, a tensor, or "mean", "add", "min", "max", "mul" of what comes
    in at the node, loops aside. A loop edge of the caller is replaced, so it has the filled features too.
    """
    nodes = min(n, m)
    loops = _filled(attr, index, n, m, fill)[:nodes]
    if nodes == 0 or index.shape[1] == 0:
        return torch.cat([attr, loops])
    source, target = index[0], index[1]
    own = torch.where((source == target)[:, None], loops[source.clamp(max=nodes - 1)], attr)
    return torch.cat([own, loops])


def _filled(attr: Tensor, index: Tensor, n: int, m: int, fill: "float | Tensor | str") -> Tensor:
    if isinstance(fill, Tensor):
        return fill.to(attr).reshape(1, -1).expand(n, attr.shape[1])
    if isinstance(fill, (int, float)):
        return attr.new_full((n, attr.shape[1]), float(fill))
    if fill not in REDUCTIONS:
        raise ValueError(f"fill_value={fill!r}: expected a number, a tensor, or one of {', '.join(REDUCTIONS)}.")
    graph = remembered((index,), ("loops aside", n, m), lambda: _aside(index, n, m))
    empty = (graph.start.diff() == 0)[:n, None]
    found = torch.segment_reduce(attr[graph.edge], REDUCTIONS[fill], offsets=graph.start, axis=0, unsafe=True)[:n]
    return found.masked_fill(empty, 1.0 if fill == "mul" else 0.0)


def _aside(index: Tensor, n: int, m: int) -> Neighbours:
    """The edges by target; loops go to a row of their own, so that nothing waits for their number."""
    source, target = index[0], index[1]
    return Neighbours.build(torch.stack([source, torch.where(source == target, n, target)]), n + 1, m, False)
