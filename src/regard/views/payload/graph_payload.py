"""The payload of attention over a graph: edges, a weight for each edge and head, and node positions.

start (n + 1), source (E'), edge (E')    the edges of target i are start[i] to start[i + 1]; ids are the caller's,
E + node for a self-loop that a layer added
weights (heads, E') float32              as they are
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap
from regard.recording.capture.edges.edge_maps import EdgeMap
from regard.recording.capture.snapshot import written

from .arrays import Blobs
from .graph_layout import layout_nodes
from .thumbnails import THUMB

MAX_EDGES = 500_000  # edges that a page draws; of larger graphs only the pyramid is included
MAX_CLASSES = 256
MAX_NAME = 80  # characters of a name


@dataclass(frozen=True, eq=False)
class GraphNodes:
    """Names, classes and positions of a graph's nodes, for a page.

    names    N names; by default the labels of the record, else indices
    classes  N classes, numbers or words, drawn as colours
    places   (N, 2) positions, x to the right and y upwards; by default a force-directed layout

    In bipartite graphs N counts the sources, then the targets.
    """

    names: "Sequence[Any] | None" = None
    classes: Any = None
    places: Any = None

    def fitting(self, count: int) -> bool:
        return all(x is None or len(x) == count for x in (self.names, self.classes, self.places))

    def spots(self, count: int) -> "NDArray[np.float32] | None":
        if self.places is None:
            return None
        found = _array(self.places).astype(np.float32)
        if found.shape != (count, 2) or not np.isfinite(found).all():
            raise ValueError(
                f"GraphNodes(places=) has shape {found.shape}, expected ({count}, 2), finite: x and y of each node."
            )
        return found

    def kinds(self) -> "tuple[NDArray[np.int64], list[str]] | None":
        """The class index of each node, and the names of the classes."""
        if self.classes is None:
            return None
        names, index = np.unique(_array(self.classes), return_inverse=True)
        if len(names) > MAX_CLASSES:
            raise ValueError(f"GraphNodes(classes=) has {len(names)} classes, expected at most {MAX_CLASSES}.")
        return index.reshape(-1), [str(x)[:MAX_NAME] for x in names]


class GraphPayload:
    """The graphs of a page: sites drawn as graphs, and one layout for all sites with the same nodes."""

    def __init__(self, groups: "Mapping[str, list[AttentionMap]]", nodes: GraphNodes | None = None):
        self.nodes = nodes or GraphNodes()
        self.ran: dict[str, EdgeMap] = {}
        self.about: list[dict[str, Any]] = []
        self._where: dict[tuple[int, int], int] = {}
        for name, group in groups.items():
            found = _over_edges(group)
            if found is not None and found.graph.source.numel() <= MAX_EDGES:
                self.ran[name] = found
        sizes = {name: self._size(amap) for name, amap in self.ran.items()}
        if nodes is not None and not any(nodes.fitting(sum(size)) for size in sizes.values()):
            length = next(len(x) for x in (nodes.names, nodes.classes, nodes.places, ()) if x is not None)
            have = ", ".join(sorted({str(sum(size)) for size in sizes.values()}))
            raise ValueError(
                f"save_html(nodes=) has {length} nodes; "
                + (f"the graphs here have {have}." if have else "no map here is over edges.")
            )

    def form(self, name: str, blobs: Blobs) -> dict[str, Any]:
        amap = self.ran[name]
        graph = amap.graph.neighbours
        weight = amap.weight.detach()[amap.slab][..., graph.edge.long()].float().cpu()
        weight = weight if weight.ndim == 2 else weight.mean(1)  # feature-wise weights as their mean
        source, target = (x.cpu().numpy() for x in (graph.source, graph.targets()))
        w = weight.numpy()
        made = {
            "form": "edges",
            "start": blobs.whole(graph.start, len(source) + 1),
            "edges": amap.graph.count,
            "source": blobs.whole(source, max(1, amap.m)),
            "edge": blobs.whole(graph.edge, amap.graph.size),
            "weights": blobs.add(w),
            "thumbs": blobs.add(_thumbs(w, source, target, amap.n, amap.m)),
            "numbers": _head_statistics(amap, w, source == target),
            "graph": self._graph(amap, blobs),
        }
        first, count = self._size(amap)
        if self.nodes.names is not None and self.nodes.fitting(first + count):
            names = [str(x)[:MAX_NAME] for x in self.nodes.names]
            made |= {"rows": names[first:], "columns": names[: amap.m]}
        return made

    def _size(self, amap: EdgeMap) -> tuple[int, int]:
        """(source-only nodes, other nodes): sources and targets are the same nodes if there are as many."""
        return (0, amap.n) if _same_nodes(amap) else (amap.m, amap.n)

    def _graph(self, amap: EdgeMap, blobs: Blobs) -> int:
        """The index of a site's node set among the page's graphs."""
        size = self._size(amap)
        if size not in self._where:
            self._where[size] = len(self.about)
            count = sum(size)
            mine = self.nodes if self.nodes.fitting(count) else GraphNodes()
            spots = mine.spots(count)
            if spots is None:
                alike = [x.graph for x in self.ran.values() if self._size(x) == size]
                source = np.concatenate([x.source.cpu().numpy() for x in alike])
                target = np.concatenate([x.target.cpu().numpy() for x in alike])
                spots = layout_nodes(source, target + size[0], count)
            kinds = mine.kinds()
            made: dict[str, Any] = {"count": count, "first": size[0], "places": blobs.add(spots)}
            if kinds is not None:
                made |= {"classes": blobs.whole(kinds[0], MAX_CLASSES), "called": kinds[1]}
            self.about.append(made)
        return self._where[size]


def _over_edges(group: Sequence[AttentionMap]) -> EdgeMap | None:
    amap = group[0]
    if len(group) > 1 or not (isinstance(amap, EdgeMap) or (isinstance(amap, LazyMap) and amap.graph is not None)):
        return None
    made = written(amap, lambda x: x)
    assert isinstance(made, EdgeMap)
    made.rows, made.columns = amap.rows, amap.columns
    return made


def _same_nodes(amap: EdgeMap) -> bool:
    same = amap.rows is None or amap.columns is None or list(amap.rows) == list(amap.columns)
    return amap.n == amap.m and same


def _head_statistics(amap: EdgeMap, w: NDArray[np.float32], loop: NDArray[np.bool_]) -> list[dict[str, float | None]]:
    """Statistics of each head: mean entropy in bits, mean weight of self-loops, largest other weight."""
    loop = loop if _same_nodes(amap) else np.zeros_like(loop)
    entropy = amap.entropy().reshape(w.shape[0], -1, amap.n).mean(1).cpu().numpy()
    rows = np.maximum(1, int((np.diff(amap.graph.start.cpu().numpy()) > 0).sum()))
    means = zip(
        entropy.sum(-1) / rows / np.log(2), (w * loop).sum(-1) / rows, (w * ~loop).max(-1, initial=0.0), strict=True
    )
    names = ("entropy", "loops", "elsewhere")
    return [{k: float(x) if math.isfinite(x) else None for k, x in zip(names, head, strict=True)} for head in means]


def _thumbs(w: NDArray[np.float32], source: NDArray[Any], target: NDArray[Any], n: int, m: int) -> NDArray[np.uint8]:
    """(heads, r, c) in 8 bits, at most 32 cells a side: the square root of the largest weight of each."""
    side = max(1, -(-max(n, m) // THUMB))
    rows, cols = -(-n // side), -(-m // side)
    pooled = np.zeros((w.shape[0], rows * cols), np.float32)
    cell = (target // side) * cols + source // side
    for head, line in enumerate(np.nan_to_num(np.abs(w))):
        np.maximum.at(pooled[head], cell, line)
    top = np.maximum(pooled.max(-1, keepdims=True, initial=0.0), 1e-30)
    return np.round(255 * np.sqrt(pooled / top)).astype(np.uint8).reshape(-1, rows, cols)


def _array(x: Any) -> NDArray[Any]:
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
