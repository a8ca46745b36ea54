"""A task on the nodes of one graph."""

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class NodeTask:
    """Some nodes are labelled; say the class of the others.

    x (N, F) torch.sparse or dense, y (N,) int64, edge_index (2, E) sources then targets,
    train, val, test (N,) bool: which nodes are learned from, chosen by, judged on.
    """

    name: str
    x: Tensor
    y: Tensor
    edge_index: Tensor
    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def nodes(self) -> int:
        return self.y.shape[0]

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def to(self, device: torch.device | str) -> "NodeTask":
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name != "name"})

    def __repr__(self) -> str:
        parts = "/".join(str(int(part.sum())) for part in (self.train, self.val, self.test))
        return (
            f"NodeTask({self.name}: {self.nodes} nodes, {self.edge_index.shape[1]} edges, {self.x.shape[1]} "
            f"features, {self.classes} classes, {parts} to train, choose and judge)"
        )


def parted(order: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Masks by an order of the nodes: the first half to learn from, a quarter to choose by, a quarter to judge on."""
    count, place = len(order), torch.from_numpy(np.argsort(order))
    return place < count // 2, (place >= count // 2) & (place < count * 3 // 4), place >= count * 3 // 4
