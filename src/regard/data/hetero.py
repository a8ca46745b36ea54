"""A task on the nodes of one type in a graph of several types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

EdgeType = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class TypedTask:
    """Some nodes of the type `target` are labelled; say the class of the others.

    x {node type: (N, F)} torch.sparse or dense, edge_index {(source type, relation, target type): (2, E)},
    y (N,) int64 and train, val, test (N,) bool: of the nodes of the type `target`.
    """

    name: str
    target: str
    x: Mapping[str, Tensor]
    y: Tensor
    edge_index: Any
    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def path(self, there: EdgeType) -> Tensor:
        """The meta-path there and back, (2, E): two nodes of the target type that share a neighbour, themselves too."""
        return meta_path(self.edge_index[there], self.y.shape[0])

    def __repr__(self) -> str:
        nodes = ", ".join(f"{x.shape[0]} {kind}s" for kind, x in self.x.items())
        parts = "/".join(str(int(part.sum())) for part in (self.train, self.val, self.test))
        edges = sum(index.shape[1] for index in self.edge_index.values())
        return (
            f"TypedTask({self.name}: {nodes}, {edges} edges, {self.classes} classes, {parts} to train, choose and "
            "judge)"
        )


def meta_path(there: Tensor, nodes: int) -> Tensor:
    """there (2, E) from nodes to what they may share  ->  (2, E') each pair that shares some, once, by target."""
    order = there[1].argsort(stable=True)
    members, shared = there[0][order], there[1][order]
    _, size = shared.unique_consecutive(return_counts=True)
    first = size.cumsum(0) - size
    group = torch.repeat_interleave(torch.arange(size.shape[0]), size**2)
    place = torch.arange(group.shape[0]) - ((size**2).cumsum(0) - size**2)[group]
    target = members[first[group] + place // size[group]]
    source = members[first[group] + place % size[group]]
    pairs = (target * nodes + source).unique()
    return torch.stack([pairs % nodes, pairs // nodes])
