"""Validation of a graph layer's inputs: node and edge features against the graph."""

import warnings
from typing import Any

from torch import Tensor, nn

from regard.core.arguments import shown

from ..call_checks import check_type, is_ids
from .adjacency import Adjacency


def check_nodes(layer: nn.Module, x: Any, channels: Any, called: str = "x", by: str = "in_channels") -> None:
    """x (..., N, F), or a pair (sources, targets) whose second may be None; channels says each F, -1 any, and `by`
    which argument fixed it."""
    who = type(layer).__name__
    ends = tuple(x) if isinstance(x, (tuple, list)) and len(x) == 2 else (x,)
    named = (called,) if len(ends) == 1 else (f"{called}[0] (sources)", f"{called}[1] (targets)")
    for place, (name, end) in enumerate(zip(named, ends, strict=True)):
        if end is None and place == 1:
            continue
        width = channels[place] if isinstance(channels, (tuple, list)) else channels
        expected = f"node features (..., N, {width})" if width != -1 else "node features (..., N, F)"
        if not isinstance(end, Tensor):
            raise TypeError(
                f"{who}: {name} is {_described(end)}, expected a tensor of {expected}, or a pair (x_source, "
                f"x_target): conv(data.x, data.edge_index)."
            )
        if end.ndim < 2 or (width != -1 and end.shape[-1] != width):
            raise ValueError(
                f"{who}: {name} has shape {tuple(end.shape)}, expected {expected}: the width is "
                f"fixed by {who}({by}=...)."
            )
        check_type(layer, end, name, inner=False)


def _described(x: Any) -> str:
    return shown(x) if x is None or isinstance(x, (bool, int, float, str, Tensor)) else f"a {type(x).__name__}"


def check_graph(layer: nn.Module, graph: Adjacency, x: Any) -> None:
    """The graph and the features share a device; an adjacency has a row for each target, a column for each source."""
    who = type(layer).__name__
    source, target = (x, x) if isinstance(x, Tensor) else x
    if graph.index.device != source.device:
        raise ValueError(
            f"{who}: edge_index is on {graph.index.device}, x is on {source.device}: move one with .to(...)."
        )
    if graph.size is None:
        return
    turned = " (adj.t() of torch_geometric)" if graph.size[::-1] == (_nodes(target), source.shape[-2]) else ""
    if source.shape[-2] != graph.size[1] or (target is not None and target.shape[-2] != graph.size[0]):
        n = "any number of" if target is None else target.shape[-2]
        raise ValueError(
            f"{who}: edge_index is an adjacency {graph.size} = (targets, sources), but x has {n} targets "
            f"and {source.shape[-2]} sources{turned}."
        )


def _nodes(x: Tensor | None) -> int | None:
    return None if x is None else x.shape[-2]


def edge_features(layer: nn.Module, attr: Tensor | None, graph: Adjacency, edge_dim: int | None) -> Tensor | None:
    """(E, D), or None if the layer takes no edge features."""
    attr = graph.attr if attr is None else attr
    if attr is None:
        return None
    who = type(layer).__name__
    if not isinstance(attr, Tensor) or attr.ndim not in (1, 2):
        raise TypeError(
            f"{who}: edge_attr is {shown(attr)}, expected a tensor (E, {edge_dim or 'D'}), one row an edge."
        )
    if edge_dim is None:
        warnings.warn(
            f"{who} was built without edge_dim, so edge_attr is not used: pass edge_dim="
            f"{1 if attr.ndim == 1 else attr.shape[-1]}.",
            stacklevel=3,
        )
        return None
    attr = attr[:, None] if attr.ndim == 1 else attr
    if attr.shape[0] != graph.index.shape[1]:
        raise ValueError(
            f"edge_attr has {attr.shape[0]} rows, but there are {graph.index.shape[1]} edges in edge_index."
        )
    if edge_dim != -1 and attr.shape[1] != edge_dim:
        raise ValueError(
            f"{who}: edge_attr has shape {tuple(attr.shape)}, expected (E, {edge_dim}): build {who} with "
            f"edge_dim={attr.shape[1]}."
        )
    check_type(layer, attr, "edge_attr", inner=False)
    return attr


def check_ids(layer: nn.Module, ids: Any, name: str, expected: str, count: int) -> Tensor:
    """One integer for each edge or node: relations, graphs."""
    who = type(layer).__name__
    if not isinstance(ids, Tensor) or not is_ids(ids) or ids.ndim != 1 or ids.shape[0] != count:
        raise ValueError(
            f"{who}: {name} is {shown(ids)}, expected {expected}, integers ({count},)"
            f"{' for edge_index' if name == 'edge_type' else ''}."
        )
    return ids


def check_ids_of_edges(layer: nn.Module, index: Any, name: str = "edge_index") -> None:
    """edge_index (2, E) as a tensor, for layers that derive other edges from it."""
    who = type(layer).__name__
    if not isinstance(index, Tensor) or not is_ids(index) or index.ndim != 2 or index.shape[0] != 2:
        given = "missing" if index is None else _described(index)
        raise TypeError(f"{who}: {name} is {given}, expected integers (2, E), sources first: conv(x, edge_index).")
