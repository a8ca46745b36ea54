"""Query models: the queries of a task model."""

import torch
from torch import Tensor, nn

from ..data.batch import Batch
from .features.encoded import Encoded


class Learned(nn.Module):
    """Learned queries, the same for every item: (B, asks, dim), or (1, graphs, dim) for concatenated graphs.

    The survey's self-attentive query of the first kind.
    """

    def __init__(self, dim: int, asks: int = 1):
        super().__init__()
        self.dim = dim
        self.question = nn.Parameter(torch.randn(asks, dim) * dim**-0.5)

    def forward(self, encoded: Encoded, batch: Batch) -> Tensor:
        if batch.graph is not None:
            return self.question[:1].expand(1, encoded.items, -1)
        return self.question.expand(encoded.items, -1, -1)


class Itself(nn.Module):
    """Self-attention: the features are the queries."""

    def forward(self, encoded: Encoded, batch: Batch) -> Tensor:
        return encoded.values


class Summary(nn.Module):
    """The summary of the feature model (last states): (B, 1, dim); without one, the mean over valid positions."""

    def forward(self, encoded: Encoded, batch: Batch) -> Tensor:
        return (encoded.mean() if encoded.summary is None else encoded.summary)[:, None]


class Mean(nn.Module):
    """The mean over valid positions: (B, 1, dim); the survey's specialised query."""

    def forward(self, encoded: Encoded, batch: Batch) -> Tensor:
        if batch.graph is not None:
            raise ValueError("query=mean is not supported for batched graphs; use query=learned.")
        return encoded.mean()[:, None]


class Second(nn.Module):
    """The second input as the query: second (B, m) words -> (B, m, dim); or (B, d) numbers -> (B, 1, dim)."""

    def __init__(self, dim: int, words: int | None = None, d: int | None = None):
        super().__init__()
        if (words is None) == (d is None):
            raise ValueError(f"Second(words={words}, d={d}): expected words= (vocabulary size) or d= (width).")
        self.dim = dim
        self.read: nn.Module = nn.Embedding(words, dim) if words is not None else nn.Linear(d or 1, dim)

    def forward(self, encoded: Encoded, batch: Batch) -> Tensor:
        if batch.second is None:
            raise ValueError("Second() needs a second input, and this batch has none.")
        found = self.read(batch.second)
        return found if found.ndim == 3 else found[:, None]
