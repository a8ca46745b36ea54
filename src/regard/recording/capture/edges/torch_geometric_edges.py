"""The edges behind a softmax of torch_geometric: who attends whom, and the place of each in what the caller gave."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .edge_maps import CapturedEdges

if TYPE_CHECKING:
    from .torch_geometric import ConvForward

NAMES = ("edge_index", "adj_t", "adj", "hyperedge_index", "edge_index_dict", "adj_t_dict")


def items_graph(index: Tensor, num_nodes: "int | None") -> CapturedEdges:
    """An aggregation: group i attends its items, one edge each, in the order in which they were given."""
    count = index.shape[0]
    items = torch.arange(count, device=index.device)
    n = num_nodes if isinstance(num_nodes, int) else int(index.max()) + 1 if count else 0
    return CapturedEdges(torch.stack([items, index]), items, index, items, n, count)


def caller_graph(passing: "ConvForward", index: Tensor | None, num_nodes: "int | None") -> CapturedEdges | None:
    """The graph whose targets are `index`, on the edges that the caller gave; None where the two do not fit."""
    row = 0 if getattr(passing.conv, "flow", "source_to_target") == "target_to_source" else 1
    kind, given = _given(passing)
    used = read_edges(given if passing.used is None else passing.used, row)
    if used is None:
        return None
    if index is not None and not torch.equal(used[1], index):
        used = used.flip(0)  # a hypergraph is attended from both sides
        if passing.used is not None or not torch.equal(used[1], index):
            return None
    if isinstance(given, dict):
        return _joined(passing, given, used)
    n, m = _sizes(passing, used, row, num_nodes)
    found = read_edges(given, row)
    found = used if given is passing.used or found is None or passing.used is None else found
    kinds = None if kind is None else {kind: (0, found.shape[1])}
    return CapturedEdges.of(found, used, n, m, kinds)


def read_edges(adjacency: Any, row: int = 1) -> Tensor | None:
    """(2, E), sources first; entries of a sparse adjacency, whose rows attend, in the order in which it has them."""
    if isinstance(adjacency, Tensor):
        if adjacency.layout != torch.strided:
            from torch_geometric.utils import to_edge_index

            found: Tensor = to_edge_index(adjacency)[0]
            return found.flip(0) if row == 1 else found
        if hasattr(adjacency, "as_tensor"):  # torch_geometric.EdgeIndex
            adjacency = adjacency.as_tensor()
        if adjacency.ndim != 2 or adjacency.shape[0] != 2 or adjacency.is_floating_point():
            return None
        return adjacency if row == 1 else adjacency.flip(0)
    if hasattr(adjacency, "coo") and hasattr(adjacency, "sparse_sizes"):  # torch_sparse.SparseTensor
        target, source, _ = adjacency.coo()
        return torch.stack([source, target])
    return None


def _given(passing: "ConvForward") -> tuple[Any, Any]:
    """What the caller passed as edges, and its type where it is one of several."""
    arguments = passing.arguments
    found = next((arguments[name] for name in NAMES if name in arguments), None)
    if found is None:
        found = next((x for x in arguments.values() if read_edges(x) is not None), passing.used)
    if isinstance(found, dict):
        for kind, part in found.items():
            if part is passing.used and kind not in passing.taken:
                passing.taken.add(kind)
                return kind, part
    return None, found


def _sizes(passing: "ConvForward", used: Tensor, row: int, num_nodes: "int | None") -> tuple[int, int]:
    """How many attend and how many are attended."""
    sizes: list[int | None] = [None, None]
    if isinstance(passing.size, (tuple, list)) and len(passing.size) == 2:
        sizes = list(passing.size)
    for x in (passing.passed.get("x"), passing.arguments.get("x"), *passing.arguments.values()):
        if isinstance(x, Tensor) and x.is_floating_point() and x.ndim > 1 and x.layout == torch.strided:
            x = (x, x)
        if isinstance(x, (tuple, list)) and len(x) == 2:
            counts = [part.shape[0] if isinstance(part, Tensor) else None for part in x]
            sizes = [a if a is not None else b for a, b in zip(sizes, counts, strict=True)]
            break
    least = [int(part.max()) + 1 if part.numel() else 0 for part in used]
    n = num_nodes if isinstance(num_nodes, int) else sizes[row]
    m = sizes[1 - row]
    m = m if m is not None else n
    return max(n or 0, least[1]), max(m or 0, least[0])


def _joined(passing: "ConvForward", given: dict[Any, Any], used: Tensor) -> CapturedEdges | None:
    """Several types of edges in one softmax (HGTConv): nodes of all types end to end, on both axes."""
    features = passing.arguments.get("x_dict")
    if not isinstance(features, dict):
        return None
    lins = getattr(getattr(passing.conv, "kqv_lin", None), "lins", None)
    order = [kind for kind in (lins.keys() if lins is not None else features) if kind in features]
    starts, nodes = {}, 0
    for kind in order:
        starts[kind] = nodes
        nodes += features[kind].shape[0]
    parts, kinds, edges = [], {}, 0
    for kind, adjacency in given.items():
        part = read_edges(adjacency)
        if part is None or kind[0] not in starts or kind[-1] not in starts:
            return None
        parts.append(part + part.new_tensor([[starts[kind[0]]], [starts[kind[-1]]]]))
        kinds[kind] = (edges, edges + part.shape[1])
        edges += part.shape[1]
    whole = torch.cat(parts, 1)
    if not torch.equal(whole[1], used[1]):
        return None
    return CapturedEdges(whole, whole[0], whole[1], torch.arange(edges, device=whole.device), nodes, nodes, kinds)
