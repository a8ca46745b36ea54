"""Edge features of self-loops that replace the caller's."""

from typing import Any

import torch
from torch import Tensor

from regard.core.arguments import number, shown
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.structures.edges import Neighbours

from ..call_checks import is_ids

REDUCTIONS = {"mean": "mean", "add": "sum", "sum": "sum", "min": "min", "max": "max", "mul": "prod"}


def check_fill(who: str, fill: Any) -> None:
    """Checks fill_value: a finite number, a tensor with a value for each feature, or a reduction by name."""
    if isinstance(fill, Tensor):
        if not fill.is_floating_point() and not is_ids(fill):
            raise TypeError(f"{who}: fill_value={shown(fill)}, expected a tensor of numbers, (D,).")
    elif isinstance(fill, str) or not isinstance(fill, (int, float)):
        if not isinstance(fill, str) or fill not in REDUCTIONS:
            raise ValueError(
                f"{who}: fill_value={shown(fill)}: expected a number, a tensor, or one of {', '.join(REDUCTIONS)}."
            )
    else:
        number(fill, who, "fill_value")


def with_loops(attr: Tensor, index: Tensor, n: int, m: int, fill: "float | Tensor | str") -> Tensor:
    """Edge features (E, D) for Edges(..., self_loops=True): (E + nodes, D), nodes = min(n, m).

    Loops are filled as torch_geometric does: a number, a tensor, or "mean", "add", "min", "max", "mul" of the
    incoming edges of the node, without loops. A loop edge of the caller is replaced, so it has the filled features too.
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
        if fill.numel() not in (1, attr.shape[1]):
            raise ValueError(f"fill_value is {shown(fill)}, expected the features of a loop, ({attr.shape[1]},).")
        return fill.to(attr).reshape(1, -1).expand(n, attr.shape[1])
    if not isinstance(fill, str):
        return attr.new_full((n, attr.shape[1]), float(fill))
    graph = cached_by_tensor((index,), ("loops aside", n, m), lambda: _aside(index, n, m))
    empty = (graph.start.diff() == 0)[:n, None]
    found = torch.segment_reduce(attr[graph.edge], REDUCTIONS[fill], offsets=graph.start, axis=0, unsafe=True)[:n]
    return found.masked_fill(empty, 1.0 if fill == "mul" else 0.0)


def _aside(index: Tensor, n: int, m: int) -> Neighbours:
    """The edges by target; loops go to an extra row, which avoids a device synchronisation for their number."""
    source, target = index[0], index[1]
    return Neighbours.build(torch.stack([source, torch.where(source == target, n, target)]), n + 1, m, False)
