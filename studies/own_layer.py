"""A layer and a data set of one's own, for studies/own_layer.toml."""

import torch
from torch import nn

from regard.data import NodeTask, csbm


class MaxConv(nn.Module):
    """A node beside the largest of its neighbours, feature by feature."""

    def __init__(self, width: int, out: int):
        super().__init__()
        self.own, self.others = nn.Linear(width, out), nn.Linear(width, out)

    def forward(self, x, edge_index):
        source, target = edge_index
        index = target[:, None].expand(-1, x.shape[1])
        largest = torch.zeros_like(x).scatter_reduce(0, index, x[source], "amax", include_self=False)
        return self.own(x) + self.others(largest)


def faint(seed: int) -> NodeTask:
    """Neighbours of one class, features that hardly tell: a block model drawn by the seed."""
    return csbm(seed=seed, signal=1.0, same=0.75)
