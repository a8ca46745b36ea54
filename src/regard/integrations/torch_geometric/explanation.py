"""Recorded attention as torch_geometric's Explanation."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explanation, HeteroExplanation

from ...core.maps.attention_map import AttentionMap
from ...core.maps.lazy import LazyMap
from ...recording import Record

REDUCE = ("max", "mean", "sum")
EdgeType = tuple[str, str, str]


def to_explanation(
    attention: "Record | AttentionMap | Mapping[str, AttentionMap]",
    edge_index: "Tensor | Mapping[EdgeType, Tensor]",
    reduce: str = "max",
    sites: str = "*",
    **data: Any,
) -> "Explanation | HeteroExplanation":
    """An Explanation whose edge_mask (E,) are the weights on edge_index, over heads and layers by `reduce`.

        edge_mask_e = reduce over layers l and heads h of  w_e^(l, h)

    attention    a record, its maps, or one map; maps over these edges are used, of `sites` of a record
    edge_index   that of the model's call, or {edge type: edge_index}: then a HeteroExplanation
    reduce       "max" (AttentionExplainer's), "mean" or "sum"
    data         further fields: x=, target=, index=, ...

    Weights are in the order of these edges, before dropout; added self-loops are left out.
    """
    if reduce not in REDUCE:
        raise ValueError(f"to_explanation(reduce={reduce!r}): expected one of {', '.join(map(repr, REDUCE))}.")
    maps = _maps(attention, sites)
    if isinstance(edge_index, Mapping):
        made = HeteroExplanation()
        made.set_value_dict("edge_mask", typed_edge_mask(maps, edge_index, reduce))
        for name, value in data.items():
            setter = made.set_value_dict if isinstance(value, Mapping) else made.__setattr__
            setter(name, value)
        return made
    return Explanation(edge_mask=edge_mask(maps, edge_index, reduce), edge_index=edge_index, **data)


def edge_mask(maps: Mapping[str, AttentionMap], edge_index: Tensor, reduce: str) -> Tensor:
    """(E,) over every map whose edges are these."""
    found = [_heads(w, reduce) for amap in maps.values() for w in (_on(amap, edge_index),) if w is not None]
    if not found:
        raise ValueError(
            f"No attention over the {edge_index.shape[1]} edges was recorded ({len(maps)} maps): the model has no "
            "attention layer, or its layers use different edges."
        )
    return _over_layers(found, reduce)


def typed_edge_mask(
    maps: Mapping[str, AttentionMap], edges: Mapping[EdgeType, Tensor], reduce: str
) -> dict[EdgeType, Tensor]:
    """{edge type: (E,)}: joint maps over all types (HGT) are split, others are matched by their edges and names."""
    found: dict[EdgeType, list[Tensor]] = {}
    turns: dict[str, int] = {}
    for site, amap in maps.items():
        joint = _joint(amap, edges)
        if joint is not None:
            for kind, weights in joint.items():
                found.setdefault(kind, []).append(_heads(weights, reduce))
            continue
        alike = [kind for kind, index in edges.items() if _on(amap, index) is not None]
        if not alike:
            continue
        named = [kind for kind in alike if "__".join(kind) in site or "___".join(kind) in site] or alike
        layer = site.split(":")[0]
        turn = turns.get(layer, 0) if len(named) > 1 else 0  # types with the very same edges, called in their order
        turns[layer] = turn + 1
        kind = named[turn % len(named)]
        own = _on(amap, edges[kind])
        assert own is not None
        found.setdefault(kind, []).append(_heads(own, reduce))
    if not found:
        raise ValueError(
            f"No attention over the edges of {len(edges)} types was recorded ({len(maps)} maps): the model has no "
            "attention layer, or its layers use different edges."
        )
    return {kind: _over_layers(weights, reduce) for kind, weights in found.items()}


def _maps(attention: Any, sites: str) -> Mapping[str, AttentionMap]:
    if isinstance(attention, AttentionMap):
        return {"map": attention}
    maps = getattr(attention, "maps", attention)
    if not isinstance(maps, Mapping):
        raise TypeError(
            f"to_explanation(attention) is a {type(attention).__name__}, expected a record, its maps or one map: "
            "with regard.record(model) as rec: model(x, edge_index)."
        )
    return {site: amap for site, amap in maps.items() if fnmatchcase(site, sites)}


def _index(amap: AttentionMap) -> Tensor | None:
    """The edges (2, E) of a map."""
    index = getattr(amap, "edge_index", None)
    if isinstance(index, Tensor):
        return index
    if isinstance(amap, LazyMap) and amap.graph is not None:
        graph = amap.graph
        made = torch.full((2, graph.edges), -1, dtype=torch.long, device=graph.source.device)
        own = graph.edge < graph.edges
        made[0, graph.edge[own].long()] = graph.source[own].long()
        made[1, graph.edge[own].long()] = graph.targets()[own]
        return made
    return None


def _weights(amap: AttentionMap) -> Tensor:
    """(maps of heads and features, E)"""
    found = amap.edges().detach()
    return found.reshape(-1, found.shape[-1])


def _on(amap: AttentionMap, edge_index: Tensor) -> Tensor | None:
    """Weights (H, E) of a map over these edges; None if its edges differ."""
    index = _index(amap)
    if index is None or index.shape != edge_index.shape:
        return None
    edge_index = edge_index.to(index.device)
    same = (index == edge_index) | (index < 0)  # replaced self-loops have no row
    return _weights(amap) if bool(same.all()) else None


def _joint(amap: AttentionMap, edges: Mapping[EdgeType, Tensor]) -> dict[EdgeType, Tensor] | None:
    """{edge type: (H, E)} of a joint map over concatenated types, in the order of the call."""
    index = _index(amap)
    if index is None:
        return None
    kinds: Any = getattr(amap, "kinds", None)
    if kinds:
        weights = _weights(amap)
        return {kind: weights[:, slice(*span)] for kind, span in kinds.items()}
    counts = [one.shape[1] for one in edges.values()]
    if len(counts) < 2 or index.shape[1] != sum(counts):
        return None
    if any(_on(amap, one) is not None for one in edges.values()):
        return None
    for part, one in zip(index.split(counts, 1), edges.values(), strict=True):
        shift = part - one.to(part.device)
        if part.numel() and bool((shift != shift[:, :1]).any()):
            return None
    return dict(zip(edges, _weights(amap).split(counts, 1), strict=True))


def _heads(weights: Tensor, reduce: str) -> Tensor:
    return weights.amax(0) if reduce == "max" else getattr(weights, reduce)(0)


def _over_layers(found: list[Tensor], reduce: str) -> Tensor:
    return _heads(torch.stack(found), reduce)
