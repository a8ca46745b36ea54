"""Edges: a graph as a structure. Row = target node, column = source node; weights in the caller's edge order."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..arguments import flag, shown, whole
from ..arguments.id_bounds import EDGES, ids_within, raise_flagged, raised
from ..caches.tensor_cache import cached_by_tensor
from ..errors import as_tensor_hint
from ..lowering.kernel_forms import EDGE_LIST, StructureForm
from ..lowering.score_kernels import EdgePart
from ..lowering.tiles import Tile
from . import Structure
from .graph_objects import index_of_sparse, parts_of

if TYPE_CHECKING:
    from ..plan import Plan


@dataclass(frozen=True, eq=False)
class Edges(Structure):
    """A graph: targets attend the sources of their edges.

        (i, j) for each edge j -> i

    Also known as: message passing, edge_index, sparse adjacency.

    edge_index (2, E) int: sources first, then targets, as in torch_geometric. Directed; duplicate edges count twice.
    Or a graph object whose edges are read: torch_geometric's Data, EdgeIndex or SparseTensor, a torch.sparse or
    scipy.sparse adjacency (rows are targets), a networkx graph (both ways where undirected), DGL's with edges().
    size = (targets, sources), taken from the queries and keys unless given. self_loops=True replaces the loops as
    torch_geometric does: each node has exactly one; the caller's own loop edge carries its weight, the added ones
    are in `map.loops`.

    An edge may have a key and a value of its own, which join those of its source:

        s_ij = score(q_i, k_j + key_e),   y_i = sum_e w_e (v_j + value_e)          join="mul": k_j * key_e

    key (..., H, E, d_k) and value (..., H, E, d_v), heads 1 or H; with self_loops=True each has E + nodes rows, the
    last ones for added self-loops (a loop edge of the caller keeps its own row).
    """

    edge_index: Any
    size: tuple[int, int] | None = None
    self_loops: bool = False
    key: Tensor | None = None
    value: Tensor | None = None
    join: str = "add"
    # keyed by n, m, version and raised flags; with a copy of edges without a version (inference mode)
    _cache: dict[tuple[int, ...], tuple["Neighbours", Tensor | None]] = field(default_factory=dict, repr=False)
    _within: bool = field(default=False, repr=False)  # whether ids were already checked against the sizes of the call
    is_graph = True

    def __post_init__(self) -> None:
        flag(self.self_loops, "Edges", "self_loops")
        found = None if type(self.edge_index) is Tensor and self.edge_index.layout == torch.strided else self._read()
        if found is not None:
            object.__setattr__(self, "edge_index", found[0])
            object.__setattr__(self, "size", found[1] if self.size is None else self.size)
        self._check_index()
        if self.size is not None:
            if not isinstance(self.size, (tuple, list)) or len(self.size) != 2:
                raise ValueError(f"Edges(size={shown(self.size)}): expected (targets, sources), or None.")
            for one in self.size:
                whole(one, "Edges", "size", 0)
        for name in ("key", "value"):
            part = getattr(self, name)
            if part is not None and not (isinstance(part, Tensor) and part.is_floating_point() and part.ndim >= 2):
                raise TypeError(
                    f"Edges({name}={shown(part)}): expected a floating-point tensor (..., heads, edges, "
                    "width), or None."
                )
        if not isinstance(self.join, str) or self.join not in ("add", "mul"):
            raise ValueError(f'Edges(join={shown(self.join)}): expected "add" (k_j + key_e) or "mul" (k_j * key_e).')

    def _check_index(self) -> None:
        index = self.edge_index
        whole = isinstance(index, Tensor) and not index.is_floating_point() and index.dtype != torch.bool
        if not whole or index.ndim != 2 or index.shape[0] != 2:
            given = f"{index.dtype} {tuple(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
            raise ValueError(
                f"Edges(edge_index) is {given}, expected integers (2, E): sources in row 0, targets in "
                "row 1. Pairs (E, 2) become edge_index.T, a dense adjacency Edges.from_dense(adjacency)."
            )

    def _read(self) -> tuple[Tensor, tuple[int, int] | None] | None:
        parts = parts_of(self.edge_index)
        if parts is None and not isinstance(self.edge_index, Tensor):
            hint = as_tensor_hint("edge_index", self.edge_index)
            raise TypeError(
                f"Edges(edge_index) is a {type(self.edge_index).__name__}, expected integers (2, E): sources in row 0, "
                f"targets in row 1; or a graph of torch_geometric, torch.sparse, scipy.sparse, networkx or DGL{hint}."
            )
        return None if parts is None else (parts.index, parts.size)

    @staticmethod
    def from_dense(adjacency: Tensor, self_loops: bool = False) -> "Edges":
        """adjacency[i, j] non-zero: i attends j."""
        if not isinstance(adjacency, Tensor) or adjacency.ndim != 2 or adjacency.layout != torch.strided:
            raise TypeError(
                f"Edges.from_dense(adjacency={shown(adjacency)}): expected a dense tensor (targets, "
                "sources); a sparse one goes to Edges.from_sparse(adjacency)."
            )
        target, source = adjacency.nonzero(as_tuple=True)
        return Edges(torch.stack([source, target]), (adjacency.shape[0], adjacency.shape[1]), self_loops)

    @staticmethod
    def from_sparse(adjacency: Tensor, self_loops: bool = False) -> "Edges":
        """A torch.sparse tensor (COO, CSR or CSC): an entry [i, j] means that i attends j, as in adj.t()."""
        if not isinstance(adjacency, Tensor) or adjacency.ndim < 2 or adjacency.layout == torch.strided:
            raise TypeError(
                f"Edges.from_sparse(adjacency={shown(adjacency)}): expected a torch.sparse matrix "
                "(targets, sources); a dense one goes to Edges.from_dense(adjacency)."
            )
        return Edges(index_of_sparse(adjacency), (adjacency.shape[0], adjacency.shape[1]), self_loops)

    @staticmethod
    def union(*graphs: "Edges") -> "Edges":
        """The union of the edges of several graphs over the same nodes.

        Edges are concatenated in the order of the graphs, as in `map.edges()`; an edge of two graphs counts twice. Keys
        and values are concatenated if every graph has them, and self_loops is set if any has it.
        """
        if not graphs or not all(isinstance(one, Edges) for one in graphs):
            raise TypeError(f"Edges.union got {shown(graphs)}: expected graphs, Edges.union(Edges(a), Edges(b)).")
        first = graphs[0]
        sizes = {(one.size[0], one.size[1]) for one in graphs if one.size is not None}
        if len(sizes) > 1 or len({one.join for one in graphs}) > 1:
            raise ValueError(
                f"Edges.union needs graphs over the same nodes with the same join=; their sizes are {sorted(sizes)}, "
                f"their joins {[one.join for one in graphs]}."
            )
        if any(one.self_loops for one in graphs) and any(x is not None for x in (first.key, first.value)):
            raise ValueError(
                "Edges.union of graphs with keys or values and self_loops=True: pass the loops as edges, with rows of "
                "their own."
            )
        joined = {}
        for name in ("key", "value"):
            parts = [getattr(one, name) for one in graphs]
            if any(x is None for x in parts) and any(x is not None for x in parts):
                raise ValueError(f"Edges.union: some of the graphs have {name}= and others do not; pass it to all.")
            joined[name] = None if parts[0] is None else torch.cat(parts, -2)
        index = torch.cat([one.edge_index for one in graphs], 1)
        loops = any(one.self_loops for one in graphs)
        return Edges(index, sizes.pop() if sizes else None, loops, joined["key"], joined["value"], first.join)

    def to(self, device: torch.device | str) -> "Edges":
        key, value = (None if x is None else x.to(device) for x in (self.key, self.value))
        return Edges(self.edge_index.to(device), self.size, self.self_loops, key, value, self.join)

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> "Neighbours":
        index = self.edge_index
        self._check_index()
        if self.size is not None and tuple(self.size) != (n, m):
            raise ValueError(
                f"Edges(size={self.size}) says (targets, sources), but there are n={n} queries and m={m} keys."
            )
        if torch.compiler.is_compiling():  # no caching while tracing
            return self._sorted(n, m)
        counted = not index.is_inference()
        key = (n, m, index._version if counted else 0, raised())
        found, of = self._cache.get(key, (None, None))
        if found is None or (of is not None and not torch.equal(of, index)):
            self._cache.clear()
            found = cached_by_tensor(
                (index,), ("neighbours", n, m, self.self_loops, raised()), lambda: self._sorted(n, m)
            )
            self._cache[key] = found, None if counted else index.clone()
        return found

    def _sorted(self, n: int, m: int) -> "Neighbours":
        index = self.edge_index if self._within else ids_within(self.edge_index, (m, n), EDGES)
        return Neighbours.build(index, n, m, self.self_loops)


@dataclass(frozen=True, eq=False)
class Neighbours(Structure):
    """Edges sorted by target: the sources of row i are source[start[i] : start[i + 1]]. Ids are within bounds.

    start (n + 1,), source (E',), edge (E',) the caller's edge ids; loops that were added have ids E + node. Sources and
    ids are int32 where they fit, which halves a kernel's index reads. The caller's replaced self-loops are removed, so
    their weight is 0.
    """

    start: Tensor
    source: Tensor
    edge: Tensor
    edges: int  # E, the number of the caller's edges
    _by_source: list["BySource"] = field(default_factory=list, repr=False)

    @staticmethod
    def build(index: Tensor, n: int, m: int, self_loops: bool) -> "Neighbours":
        source, target = index[0].long(), index[1].long()
        count = index.shape[1]
        edge = torch.arange(count, device=index.device)
        if self_loops:
            raise_flagged(index.device)
            source, target, edge = _with_loops(source, target, edge, min(n, m), count)
        order, small = _sorted(target, n), _smallest(max(m, count + min(n, m)))
        edge = edge.index_select(0, order) if self_loops else order
        return Neighbours(_starts(target, n), source.index_select(0, order).to(small), edge.to(small), count)

    def kernel_form(self, n: int, m: int) -> StructureForm:
        return StructureForm(EDGE_LIST)

    def by_source(self, m: int) -> "BySource":
        """The edges sorted by source, cached: for the gradient of the sources."""
        if not self._by_source:
            source, small = self.source.long(), self.source.dtype
            slot = _sorted(source, m)
            self._by_source.append(BySource(_starts(source, m), self.targets()[slot].to(small), slot.to(small)))
        return self._by_source[0]

    def allowed(self, tile: Tile) -> Tensor | None:
        if tile.edge is None:  # a dense read of a graph: pairs with at least one edge
            joined = torch.zeros(tile.n, tile.m, dtype=torch.bool, device=self.source.device)
            joined[self.targets(), self.source.long()] = True
            return joined[tile.query, tile.key]
        return tile.edge >= 0

    def targets(self) -> Tensor:
        """(E',) the row of each slot."""
        degree = self.start.diff()
        return torch.repeat_interleave(torch.arange(degree.shape[0], device=degree.device), degree)

    def blocks(self, budget: int) -> list[Tensor]:
        """Rows grouped by degree, so that padding a group to its largest degree wastes little."""
        raise_flagged(self.start.device)
        degree = self.start.diff()
        order = torch.argsort(degree, stable=True)
        sizes = degree[order].tolist()
        groups, first = [], 0
        while first < len(sizes):
            last = first + 1
            widest = 2 * sizes[first] + 8 if sizes[first] else 0  # isolated rows form a group of their own
            while last < len(sizes) and sizes[last] <= widest and (last + 1 - first) * sizes[last] <= budget:
                last += 1
            groups.append(order[first:last])
            first = last
        return groups

    def padded(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Sources and edge ids of some rows, (r, c) with c the largest degree.

        Padding has edge id -1 and repeats the row's first source, so that a node's NaN reaches its neighbours only.
        """
        raise_flagged(self.start.device)
        first, degree = self.start[rows], self.start[rows + 1] - self.start[rows]
        width = int(degree.max()) if rows.numel() else 0
        place = first[:, None] + torch.arange(width, device=rows.device)
        valid = torch.arange(width, device=rows.device) < degree[:, None]
        place = place.where(valid, first[:, None]).clamp_max(max(0, self.source.shape[0] - 1))
        if self.source.shape[0] == 0:
            return place, torch.full_like(place, -1)
        return self.source[place].long(), self.edge[place].long().where(valid, -1)

    def __str__(self) -> str:
        return f"Edges({self.edges} edges)"


class BySource(NamedTuple):
    """The targets of source j are target[start[j] : start[j + 1]]; slot: its index among edges by target."""

    start: Tensor
    target: Tensor
    slot: Tensor


def _sorted(key: Tensor, size: int) -> Tensor:
    """Stable argsort of keys in 0 to size - 1."""
    count = key.shape[0]
    if torch.compiler.is_compiling() or type(key) is not Tensor or key.device.type != "cpu" or count == 0:
        return torch.sort(key, stable=True).indices
    bits = count.bit_length()
    if size.bit_length() + bits > 63:
        return torch.sort(key, stable=True).indices
    packed = (key.numpy() << bits) | np.arange(
        count
    )  # key and index packed in one integer: numpy sorts them six times faster
    packed.sort()
    return torch.from_numpy(packed & ((1 << bits) - 1))


def _smallest(count: int) -> torch.dtype:
    """The smaller integer dtype for indices below count."""
    return torch.int32 if count < 2**31 else torch.int64


def _starts(key: Tensor, size: int) -> Tensor:
    """(size + 1,): start of each key among the sorted ones (CSR pointer)."""
    degree = torch.zeros(size, dtype=torch.long, device=key.device)
    degree.scatter_add_(0, key, torch.ones_like(key))
    return torch.cat([degree.new_zeros(1), degree.cumsum(0)])


def _with_loops(source: Tensor, target: Tensor, edge: Tensor, nodes: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """One self-loop a node: the caller's first loop edge, or an added one with id count + node."""
    loop = source == target
    node = torch.arange(nodes, device=source.device)
    own = torch.full((nodes,), count, device=source.device, dtype=torch.long)
    own.scatter_reduce_(0, source[loop], edge[loop], "amin")
    ids = torch.where(own < count, own, count + node)
    keep = ~loop
    return torch.cat([source[keep], node]), torch.cat([target[keep], node]), torch.cat([edge[keep], ids])


def neighbours_of(structure: Structure) -> Neighbours | None:
    """The graph in a fitted structure, or None."""
    for part in structure.parts():
        if isinstance(part, Neighbours):
            return part
    return None


def edge_parts(over: Structure, plan: "Plan") -> tuple[EdgePart | None, EdgePart | None]:
    """Edge keys and values of a call, each (B, H, rows, width), one row for each edge id."""
    for graph in over.parts():
        if isinstance(graph, Edges) and (graph.key is not None or graph.value is not None):
            key = _part(graph, "key", graph.key, plan, plan.k.shape[-1])
            twins = graph.value is graph.key and plan.k.shape[-1] == plan.v.shape[-1]  # keep one tensor shared
            value = key if twins else _part(graph, "value", graph.value, plan, plan.v.shape[-1])
            return (None if key is None else EdgePart(key, graph.join)), (None if value is None else EdgePart(value))
    return None, None


def _part(graph: Edges, name: str, x: Tensor | None, plan: "Plan", width: int) -> Tensor | None:
    if x is None:
        return None
    loops = min(plan.n, plan.m) if graph.self_loops else 0
    rows = graph.edge_index.shape[1] + loops
    expected = (*plan.lead, plan.heads, rows, width) if plan.q_ndim > 2 else (rows, width)
    x = x if x.ndim != 2 or plan.q_ndim == 2 else x[None]
    fits = x.ndim <= len(expected) and x.shape[-2:] == expected[-2:]
    if not fits or any(a not in (1, b) for a, b in zip(x.shape[::-1], expected[::-1], strict=False)):
        why = f" ({graph.edge_index.shape[1]} edges and {loops} self-loops)" if loops else ""
        raise ValueError(
            f"Edges({name}) has shape {tuple(x.shape)}, expected {expected} = (..., heads, edges, width){why}."
        )
    return x.to(plan.q.dtype).expand(expected).reshape(plan.batch, plan.heads, rows, width)
