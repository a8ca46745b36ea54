"""A task on the nodes of one graph."""

from dataclasses import KW_ONLY, dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class NodeTask:
    """Semi-supervised node classification.

    x (N, F) torch.sparse or dense, y (N,) int64, edge_index (2, E) sources then targets,
    train, val, test (N,) bool masks.
    source, digest, split: of a file of your own, its path, the hash of its bytes and the seed of the split.
    """

    name: str
    x: Tensor
    y: Tensor
    edge_index: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    _: KW_ONLY
    source: str = ""
    digest: str = ""
    split: int = 0

    @property
    def nodes(self) -> int:
        return self.y.shape[0]

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def to(self, device: torch.device | str) -> "NodeTask":
        return replace(
            self,
            **{
                f.name: getattr(self, f.name).to(device)
                for f in fields(self)
                if isinstance(getattr(self, f.name), Tensor)
            },
        )

    def __repr__(self) -> str:
        parts = "/".join(str(int(part.sum())) for part in (self.train, self.val, self.test))
        return (
            f"NodeTask({self.name}: {self.nodes} nodes, {self.edge_index.shape[1]} edges, {self.x.shape[1]} "
            f"features, {self.classes} classes, {parts} train, val and test)"
        )


def split_masks(order: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of a 50/25/25 split by an order of the nodes."""
    count, place = len(order), torch.from_numpy(np.argsort(order))
    return place < count // 2, (place >= count // 2) & (place < count * 3 // 4), place >= count * 3 // 4
