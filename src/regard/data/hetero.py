"""A task on the nodes of one type in a graph of several types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

EdgeType = tuple[str, str, str]
MetaPath = tuple[EdgeType, ...]


@dataclass(frozen=True, eq=False)
class TypedTask:
    """Node classification on one node type, `target`, of a heterogeneous graph.

    x {node type: (N, F)} torch.sparse or dense, edge_index {(source type, relation, target type): (2, E)},
    y (N,) int64 and train, val, test (N,) bool: of the nodes of the type `target`;
    paths {name: edge types in order}: meta-paths from the target type to itself, of any length.
    """

    name: str
    target: str
    x: Mapping[str, Tensor]
    y: Tensor
    edge_index: Any
    train: Tensor
    val: Tensor
    test: Tensor
    paths: Mapping[str, MetaPath] = field(default_factory=dict)

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def path(self, there: EdgeType) -> Tensor:
        """The meta-path there and back, (2, E): pairs of target nodes with a common neighbour, self-loops included."""
        return meta_path(self.edge_index[there], self.y.shape[0])

    def along(self, path: Sequence[EdgeType]) -> Tensor:
        """Edges of a meta-path of any length, (2, E): each connected pair once; sources, then targets."""
        nodes = self.y.shape[0]
        pairs = self.edge_index[path[0]]
        for kind in path[1:]:
            pairs = joined(pairs, self.edge_index[kind], self.x[kind[0]].shape[0], nodes)
        return pairs if len(path) > 1 else joined(pairs, torch.arange(nodes).expand(2, -1), nodes, nodes)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{x.shape[0]} {kind}s" for kind, x in self.x.items())
        parts = "/".join(str(int(part.sum())) for part in (self.train, self.val, self.test))
        edges = sum(index.shape[1] for index in self.edge_index.values())
        return f"TypedTask({self.name}: {nodes}, {edges} edges, {self.classes} classes, {parts} train, val and test)"


def meta_path(there: Tensor, nodes: int) -> Tensor:
    """there (2, E) from nodes to intermediate nodes  ->  (2, E') each pair with a common neighbour, once, by target."""
    shared = int(there[1].max()) + 1 if there.numel() else 0
    return joined(there, there.flip(0), shared, nodes)


def joined(pairs: Tensor, step: Tensor, middle: int, sources: int) -> Tensor:
    """Composes pairs (2, P) from `sources` to `middle` nodes with step (2, E)  ->  (2, P') each pair once,
    by target: the sparsity pattern of the product of the adjacency matrices."""
    count = torch.bincount(step[0], minlength=middle)
    first = count.cumsum(0) - count
    target = step[1][step[0].argsort(stable=True)]
    ways = count[pairs[1]]
    row = torch.repeat_interleave(torch.arange(pairs.shape[1]), ways)
    place = torch.arange(row.shape[0]) - (ways.cumsum(0) - ways)[row]
    found = (target[first[pairs[1]][row] + place] * sources + pairs[0][row]).unique()
    return torch.stack([found % sources, found // sources])
