"""Graph objects of other libraries, read by duck typing, without importing the libraries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..caches.tensor_cache import cached_by_tensor


@dataclass(frozen=True, eq=False)
class GraphParts:
    """index (2, E): sources, then targets. size (targets, sources) if known. values: a row for each edge."""

    index: Tensor
    size: tuple[int, int] | None
    values: Tensor | None


def parts_of(graph: Any) -> GraphParts | None:
    """Edges of a graph object; None for other objects.

    torch_geometric   Data, a batch, data[edge_type] (edge_index, else adj_t; edge_attr are values), EdgeIndex,
                      SparseTensor: an entry [i, j] means that i attends j
    torch.sparse      and scipy.sparse matrices: the same, rows are targets
    networkx          u -> v gives v attends u; an undirected edge goes both ways; nodes in the order of G.nodes
    DGL               anything with edges() and num_nodes(): (sources, targets)
    """
    if isinstance(graph, Tensor):
        return _tensor(graph)
    if hasattr(graph, "edge_index_dict") and not _has(graph, "edge_index"):
        kinds = ", ".join(str(kind) for kind in list(graph.edge_index_dict)[:3])
        raise TypeError(
            f"edge_index is a {type(graph).__name__} of several edge types ({kinds}): pass one of them, "
            "data[edge_type], or use a layer of several types, HGTConv(...)(data.x_dict, data.edge_index_dict)."
        )
    if _has(graph, "edge_index"):
        index = graph.edge_index
        found = parts_of(index)
        made = GraphParts(index, None, None) if found is None else found
        values = graph.edge_attr if _has(graph, "edge_attr") else None
        return made if values is None else replace(made, values=values[:, None] if values.ndim == 1 else values)
    if _has(graph, "adj_t"):
        return parts_of(graph.adj_t)
    if hasattr(graph, "coo") and hasattr(graph, "sparse_sizes"):
        target, source, value = graph.coo()
        return GraphParts(torch.stack([source, target]), tuple(graph.sparse_sizes()), value)
    if hasattr(graph, "tocoo") and hasattr(graph, "shape"):
        matrix = graph.tocoo()
        source, target = (torch.as_tensor(x).long() for x in (matrix.col, matrix.row))
        return GraphParts(torch.stack([source, target]), tuple(graph.shape), None)
    if hasattr(graph, "is_directed") and hasattr(graph, "adj") and callable(getattr(graph, "edges", None)):
        return _networkx(graph)
    if callable(getattr(graph, "edges", None)):
        return _with_edges(graph)
    return None


def _has(graph: Any, name: str) -> bool:
    """Data objects raise or return None for missing attributes."""
    return getattr(graph, name, None) is not None


def _tensor(graph: Tensor) -> GraphParts | None:
    if hasattr(graph, "as_tensor"):  # torch_geometric's EdgeIndex, a tensor with sort order metadata
        return GraphParts(graph.as_tensor(), None, None)
    if graph.layout == torch.strided:
        return None
    index = cached_by_tensor((graph,), "edges of a sparse adjacency", lambda: index_of_sparse(graph))
    made = graph if graph.layout == torch.sparse_coo else graph.to_sparse_coo()
    return GraphParts(index, (graph.shape[0], graph.shape[1]), made.coalesce().values())


def index_of_sparse(adjacency: Tensor) -> Tensor:
    """edge_index (2, E) of a torch.sparse adjacency whose rows are targets, in row-major order."""
    if adjacency.layout == torch.sparse_coo:
        target, source = adjacency.coalesce().indices()
    else:
        target, source = adjacency.to_sparse_coo().coalesce().indices()
    return torch.stack([source, target])


def _networkx(graph: Any) -> GraphParts:
    place = {node: number for number, node in enumerate(graph)}
    pairs = [(place[edge[0]], place[edge[1]]) for edge in graph.edges()]
    if not graph.is_directed():
        pairs += [(v, u) for u, v in pairs if u != v]
    index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t().contiguous()
    return GraphParts(index, (len(place), len(place)), None)


def _with_edges(graph: Any) -> GraphParts | None:
    ends = graph.edges()
    if not isinstance(ends, Sequence) or len(ends) != 2 or not all(isinstance(end, Tensor) for end in ends):
        return None
    size = None
    if hasattr(graph, "num_src_nodes") and hasattr(graph, "num_dst_nodes"):
        size = int(graph.num_dst_nodes()), int(graph.num_src_nodes())
    elif callable(getattr(graph, "num_nodes", None)):
        size = int(graph.num_nodes()), int(graph.num_nodes())
    # one tensor for each graph, so that its sorted edges are cached across steps
    index = cached_by_tensor((ends[0], ends[1]), "edges of a graph", lambda: torch.stack([ends[0], ends[1]]).long())
    return GraphParts(index, size, None)
