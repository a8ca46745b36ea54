"""Query models: who asks."""

import torch
from torch import Tensor, nn

from ..data.batch import Batch
from .features.encoded import Encoded


class Learned(nn.Module):
    """The same question for everybody: (B, asks, dim), or (1, graphs, dim) where graphs lie end to end.

    The survey's self-attentive query of the first kind.
    """

    def __init__(self, dim: int, asks: int = 1):
        super().__init__()
        self.dim = dim
        self.question = nn.Parameter(torch.randn(asks, dim) * dim**-0.5)

    def forward(self, seen: Encoded, batch: Batch) -> Tensor:
        if batch.graph is not None:
            return self.question[:1].expand(1, seen.items, -1)
        return self.question.expand(seen.items, -1, -1)


class Itself(nn.Module):
    """Every position asks: the features are the queries."""

    def forward(self, seen: Encoded, batch: Batch) -> Tensor:
        return seen.values


class Summary(nn.Module):
    """The last states of the feature model ask: (B, 1, dim); without any, the mean of what is real."""

    def forward(self, seen: Encoded, batch: Batch) -> Tensor:
        return (seen.mean() if seen.summary is None else seen.summary)[:, None]


class Mean(nn.Module):
    """The mean of what is real asks: (B, 1, dim); a query built from the features, the survey's specialised one."""

    def forward(self, seen: Encoded, batch: Batch) -> Tensor:
        if batch.graph is not None:
            raise ValueError("query=mean has no mean of one graph among others laid end to end; take query=learned.")
        return seen.mean()[:, None]


class Second(nn.Module):
    """The second input asks: second (B, m) words -> (B, m, dim); or (B, d) numbers -> (B, 1, dim)."""

    def __init__(self, dim: int, words: int | None = None, d: int | None = None):
        super().__init__()
        if (words is None) == (d is None):
            raise ValueError(f"Second(words={words}, d={d}): give words= (how many there are) or d= (numbers), one.")
        self.dim = dim
        self.read: nn.Module = nn.Embedding(words, dim) if words is not None else nn.Linear(d or 1, dim)

    def forward(self, seen: Encoded, batch: Batch) -> Tensor:
        if batch.second is None:
            raise ValueError("Second() asks with the second input of a batch, and this batch has none.")
        found = self.read(batch.second)
        return found if found.ndim == 3 else found[:, None]
