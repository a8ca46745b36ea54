"""GAtt: what each edge gives to a node's output, by the attention of all layers of a graph network."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import within
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap

from ..capture.edges.edge_maps import EdgeMap
from ..capture.snapshot import written


def gatt(maps: Any, nodes: "int | Sequence[int] | Tensor", sites: str = "*") -> EdgeMap:
    """The attribution of edges to nodes over the computation tree: an EdgeMap whose edges() is (E,), or (nodes, E).

        phi_v(i -> j) = sum over l = L .. 1 of C_l[v, j] A_l[j, i],   C_L = 1,   C_(l-1) = C_l A_l

    maps    a record, or the maps of the layers, the first layer first; A_l is the mean of a layer's heads
    nodes   the node whose output is explained, or several
    sites   which sites of a record are the layers

    Every place of an edge in the tree counts, by the product of the weights on its way to the root: an edge that is
    near, or met often, counts more. Attribution that a layer's own self-loops carry stands in .loops. Where weights of
    a node sum to one, all edges together have L. O(L E) for each node. Shin, Li, Cao & Shin 2024.
    """
    layers = [_on_edges(amap, place) for place, amap in enumerate(_in_order(maps, sites))]
    if not layers:
        raise ValueError(
            f"gatt found no map over edges (sites={sites!r}): record a graph network, or pass the maps of its layers."
        )
    last = layers[-1]
    for place, layer in enumerate(layers):
        if (layer.n, layer.m, layer.graph.count) != (last.n, last.n, last.graph.count):
            raise ValueError(
                f"gatt: layer {place} has {layer.graph.count} edges, {layer.m} sources and {layer.n} "
                f"targets, the last one {last.graph.count} edges and {last.n} nodes: every layer must go "
                "over the same graph."
            )
    chosen = torch.as_tensor(nodes, device=last.weight.device)
    for end in (int(chosen.min()), int(chosen.max())) if chosen.numel() else ():
        within(end, last.n, f"gatt(nodes={nodes})", "nodes")
    flat = chosen.reshape(-1) % last.n
    reach = last.weight.new_zeros((flat.shape[0], last.n)).scatter_(1, flat[:, None], 1.0)  # C_l, a row a node
    found = last.weight.new_zeros((flat.shape[0], last.weight.shape[-1]))
    for layer in reversed(layers):
        graph, each = layer.graph, layer.weight[0]
        carried = reach[:, graph.target] * each[graph.edge]
        found.index_add_(1, graph.edge, carried)
        reach = torch.zeros_like(reach).index_add_(1, graph.source, carried)
    return EdgeMap(tuple(chosen.shape), found, last.graph)


def _in_order(maps: Any, sites: str) -> "Iterable[AttentionMap]":
    """Maps over edges, in the order in which they ran."""
    by_site = getattr(maps, "maps", maps)
    if not hasattr(by_site, "items"):
        return list(by_site)
    found = [amap for name, amap in by_site.items() if fnmatchcase(name, sites)]
    return [x for x in found if isinstance(x, EdgeMap) or (isinstance(x, LazyMap) and x.graph is not None)]


def _on_edges(amap: AttentionMap, place: int) -> EdgeMap:
    """One map for all heads: weight (1, ids), the mean over heads and features."""
    if isinstance(amap, LazyMap) and amap.graph is not None:
        amap = written(amap, torch.detach)
    if not isinstance(amap, EdgeMap):
        raise TypeError(f"gatt: layer {place} is a {type(amap).__name__}, expected a map over the edges of a graph.")
    if len(amap.lead) > 1 and amap.lead[:-1].count(1) != len(amap.lead) - 1:
        raise ValueError(f"gatt: layer {place} has the leading axes {amap.lead}: pass one item of the batch, amap[b].")
    weight = amap.weight.detach()[amap.slab]
    return EdgeMap((1,), weight.reshape(-1, weight.shape[-1]).mean(0, keepdim=True), amap.graph)
