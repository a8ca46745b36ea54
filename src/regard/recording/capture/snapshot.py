"""Copies of maps: lazy ones stay lazy, or their weights are materialised."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.core.factored.factored_map import FactoredMap
from regard.core.lowering.serialization import transform
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.edges import edge_weights
from regard.core.maps.lazy import LazyMap
from regard.core.maps.stored import StoredMap
from regard.core.structures.edges import Neighbours

from .edges.edge_maps import CapturedEdges, EdgeMap


def copied(amap: AttentionMap, keep: Callable[[Tensor], Tensor]) -> AttentionMap:
    """A copy of a map, which later in-place changes do not reach."""
    if isinstance(amap, StoredMap):
        mask = None if amap.keep is None else keep(amap.keep)
        return StoredMap(amap.lead, keep(amap.stored), amap.features is not None, amap.slab, False, mask)
    assert isinstance(amap, LazyMap)
    live = amap.live
    if not live.score.closed:  # a score of the user's own may hold anything: what it gives is kept
        return written(amap, keep)
    problem = transform(replace(live, edge_value=None), keep)
    state = amap._state
    if state is not None and keep(state.tau).dtype != state.tau.dtype:
        state = None  # queries and keys are rounded: the row state is that of the rounded ones
    state = (
        None
        if state is None
        else state._replace(**{name: keep(part) for name, part in state._asdict().items() if part is not None})
    )
    index = None if amap._index is None else keep(amap._index)
    return LazyMap(problem, state, amap.lead, amap.slab, amap.replayable, index, watched=())  # nobody else has them


def copied_factors(amap: FactoredMap, keep: Callable[[Tensor], Tensor]) -> FactoredMap:
    """The same with tensors of its own."""
    ids, own = (None if x is None else keep(x) for x in (amap.ids, amap.own))
    return FactoredMap(amap.lead, keep(amap.q), keep(amap.k), keep(amap.inverse), ids, own, amap.signed, amap.slab)


def written(amap: AttentionMap, keep: Callable[[Tensor], Tensor]) -> AttentionMap:
    """A map of the weights themselves: on the edges of a graph, else (g, [F,] n, m)."""
    if isinstance(amap, EdgeMap):
        return amap.copied(keep)
    if isinstance(amap, LazyMap) and amap.graph is not None:
        graph, weight = graph_of(amap.graph, amap.n, amap.m), edge_weights(amap, False, False)
        room = graph.size - weight.shape[-1]
        return EdgeMap(amap.lead, keep(F.pad(weight, (0, room))), graph.snapshot(keep))
    weights = amap.weights()
    flat = weights.reshape(-1, *weights.shape[len(amap.lead) :])
    return StoredMap(amap.lead, keep(flat), amap.features is not None, rooted=False)


def graph_of(found: Neighbours, n: int, m: int, edge_index: Tensor | None = None) -> CapturedEdges:
    """The edges of a map of ours. Where the caller's are not given, one that a self-loop replaced has ends of -1."""
    source, target, edge = found.source.long(), found.targets(), found.edge.long()
    if edge_index is None:
        edge_index = torch.full((2, found.edges), -1, device=edge.device)
        real = edge < found.edges
        edge_index[:, edge[real]] = torch.stack([source, target])[:, real]
    return CapturedEdges(edge_index, source, target, edge, n, m)
