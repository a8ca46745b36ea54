"""Input formats of a graph: edge_index, a sparse or dense adjacency, or a graph object of another library."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.core.arguments.id_bounds import IdNames, ids_within
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.errors import as_tensor_hint
from regard.core.structures.graph_objects import parts_of

ENDS = IdNames(
    "edge_index",
    "edge",
    "A node is a row of x, counted from 0; leave out edges that pad the list.",
    ("source", "target"),
)
TYPES = IdNames("edge_type", "edge", "Build the layer with num_relations= as many as there are types.", ("relation",))


@dataclass(frozen=True, eq=False)
class Adjacency:
    """index (2, E): sources, then targets. values: entries of a sparse adjacency. given: the caller's object.

    size (targets, sources) of an adjacency. held: whether all ids are within bounds, so that features may be indexed.
    """

    index: Tensor
    values: Tensor | None
    given: Any
    flow: str = "source_to_target"
    size: tuple[int, int] | None = None
    held: bool = False

    def within(self, sources: int, targets: int) -> "Adjacency":
        """The same graph with ids checked to be 0 to sources - 1 and 0 to targets - 1."""
        index = ids_within(self.index, (sources, targets), ENDS)
        return Adjacency(index, self.values, self.given, self.flow, self.size, held=True)

    @property
    def attr(self) -> Tensor | None:
        """Edge features: the values of an adjacency, if they are vectors."""
        return self.values if self.values is not None and self.values.ndim > 1 else None

    @property
    def sparse(self) -> bool:
        return not isinstance(self.given, Tensor) or self.given.layout != torch.strided

    def as_given(self, index: Tensor) -> Tensor:
        """An index in the caller's orientation."""
        return index.flip(0) if self.flow == "target_to_source" and not self.sparse else index


def read_graph(adjacency: Any, flow: str = "source_to_target") -> Adjacency:
    """edge_index (2, E) is read as it is. In an adjacency, row i and column j mean that i attends j, as in adj.t().

    A dense adjacency is a matrix (targets, sources) of numbers or bools; integers with two rows are always an
    edge_index, and floating-point ones with two rows are an error. Graph objects are those of `parts_of`.
    """
    if isinstance(adjacency, Adjacency):
        return adjacency
    parts = None if type(adjacency) is Tensor and adjacency.layout == torch.strided else parts_of(adjacency)
    if parts is not None:
        if _is_matrix(adjacency):
            return Adjacency(parts.index, parts.values, adjacency, size=parts.size)
        made = read_graph(parts.index, flow)  # a graph object: its weights are returned on an edge_index
        return replace(made, values=parts.values, size=parts.size)
    if not isinstance(adjacency, Tensor):
        given = "missing" if adjacency is None else f"a {type(adjacency).__name__}"
        raise TypeError(
            f"edge_index is {given}, expected a tensor (2, E) of sources and targets, a graph object such as "
            "torch_geometric's Data, a torch.sparse adjacency such as adj.t(), or a dense adjacency: "
            f"conv(x, edge_index){as_tensor_hint('edge_index', adjacency)}."
        )
    if adjacency.ndim == 2 and adjacency.shape[0] == 2 and _whole(adjacency):
        if flow == "source_to_target":
            return Adjacency(adjacency, None, adjacency)
        return Adjacency(cached_by_tensor((adjacency,), "turned", lambda: adjacency.flip(0)), None, adjacency, flow)
    if adjacency.is_floating_point() and adjacency.ndim == 2 and adjacency.shape[0] == 2:
        raise ValueError(
            f"edge_index is {adjacency.dtype} {tuple(adjacency.shape)}, expected integers (2, E): ids of nodes are "
            "whole numbers, edge_index.long(). An adjacency of two targets is adjacency.bool()."
        )
    if adjacency.ndim == 2 and (not _whole(adjacency) or adjacency.shape[0] == adjacency.shape[1]):
        index = cached_by_tensor((adjacency,), "edges of a dense adjacency", lambda: _dense(adjacency))
        return Adjacency(index, None, adjacency, size=(adjacency.shape[0], adjacency.shape[1]))
    raise ValueError(
        f"edge_index is {adjacency.dtype} {tuple(adjacency.shape)}, expected integers (2, E), sources "
        "first, or an adjacency (targets, sources). Pairs (E, 2) become edge_index.T."
    )


def _whole(x: Tensor) -> bool:
    return not x.is_floating_point() and x.dtype != torch.bool


def _dense(adjacency: Tensor) -> Tensor:
    target, source = (adjacency > 0).nonzero(as_tuple=True)
    return torch.stack([source, target])


def _is_matrix(adjacency: Any) -> bool:
    """Whether weights are returned in the caller's sparse layout: torch.sparse, torch_sparse's SparseTensor."""
    if isinstance(adjacency, Tensor):
        return adjacency.layout != torch.strided
    return hasattr(adjacency, "coo") and hasattr(adjacency, "set_value")


def sparse_like(given: Any, index: Tensor, values: Tensor) -> Any:
    """An adjacency in the caller's layout that holds `values` (E, H) at index (sources, targets), row-major."""
    if not isinstance(given, Tensor):
        return given.set_value(values, layout="coo")
    size = given.shape[:2]
    whole = (*size, *values.shape[1:])
    if given.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(index.flip(0), values, whole, is_coalesced=True)
    by_row = given.layout == torch.sparse_csr
    if not by_row:
        order = torch.argsort(index[0], stable=True)
        index, values = index[:, order], values[order]
    line, other = (index[1], index[0]) if by_row else (index[0], index[1])
    counts = torch.bincount(line, minlength=size[0] if by_row else size[1])
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    make = torch.sparse_csr_tensor if by_row else torch.sparse_csc_tensor
    return make(ends, other, values, whole)


def pair_of(x: Any) -> tuple[Tensor, Tensor | None]:
    """(sources, targets) of a layer's input; a single tensor is both."""
    return (x, x) if isinstance(x, Tensor) else (x[0], x[1])
