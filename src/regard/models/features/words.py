"""Word embeddings, linear maps and convolutions over words."""

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batch import Batch
from regard.data.vocabulary import PAD

from .encoded import Encoded


class Embedded(nn.Module):
    """A vector for each word: inputs (B, n) -> values (B, n, dim). The padding word is zero.

    deviation   of the initial vectors; 1 / sqrt(dim) unless given. With 1 a decoder learns to attend much sooner.
    vectors     (words, dim) pretrained initial vectors
    """

    def __init__(
        self, words: int, dim: int, dropout: float = 0.0, deviation: float | None = None, vectors: Tensor | None = None
    ):
        super().__init__()
        if vectors is not None and tuple(vectors.shape) != (words, dim):
            raise ValueError(
                f"Embedded(vectors of shape {tuple(vectors.shape)}): expected ({words}, {dim}), one for each word."
            )
        self.dim = dim
        self.table = nn.Embedding(words, dim, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=dim**-0.5 if deviation is None else deviation)
        with torch.no_grad():
            if vectors is not None:
                self.table.weight.copy_(vectors)
            self.table.weight[PAD].zero_()
        self.dropout = nn.Dropout(dropout)

    def vectors(self, words: Tensor) -> Tensor:
        return self.dropout(self.table(words))

    def forward(self, batch: Batch) -> Encoded:
        return Encoded(self.vectors(batch.inputs), len(batch), batch.over, real=batch.real)


class Alone(nn.Module):
    """Context-free features: values tanh(W x), (B, n, d) -> (B, n, dim)."""

    def __init__(self, before: Any, dim: int):
        super().__init__()
        self.before, self.dim = before, dim
        self.project = nn.Linear(before.dim, dim)

    def forward(self, batch: Batch) -> Encoded:
        encoded = self.before(batch)
        return Encoded(torch.tanh(self.project(encoded.values)), encoded.items, encoded.over, real=encoded.real)


class Frames(nn.Module):
    """Precomputed vectors, such as audio frames: inputs (B, n, d) of any precision -> values (B, n,
    dim)."""

    def __init__(self, d: int, dim: int, dropout: float = 0.0):
        super().__init__()
        self.dim = dim
        self.project, self.dropout = nn.Linear(d, dim), nn.Dropout(dropout)

    def vectors(self, inputs: Tensor) -> Tensor:
        return self.dropout(F.relu(self.project(inputs.to(self.project.weight.dtype))))

    def forward(self, batch: Batch) -> Encoded:
        return Encoded(self.vectors(batch.inputs), len(batch), batch.over, real=batch.real)


class Pairs(nn.Module):
    """Rows of c words, each with its own vocabulary: inputs (B, n, c) -> values (B, n, dim), summed over c."""

    def __init__(self, sizes: tuple[int, ...], dim: int):
        super().__init__()
        self.dim = dim
        self.tables = nn.ModuleList(nn.Embedding(size, dim) for size in sizes)

    def forward(self, batch: Batch) -> Encoded:
        found = sum(table(batch.inputs[..., place]) for place, table in enumerate(self.tables))
        return Encoded(found, len(batch), batch.over, real=batch.real)


class Convolved(nn.Module):
    """Convolutions of odd width with ReLU over neighbouring words; padding is zeroed at every layer, so that the result
    does not depend on padding.

    before: a feature model with values (B, n, d) -> values (B, n, dim)
    """

    def __init__(self, before: Any, dim: int, width: int = 5, layers: int = 1, dropout: float = 0.0):
        super().__init__()
        if width % 2 == 0:
            raise ValueError(f"Convolved(width={width}): expected an odd width, so that it is centred on a word.")
        self.before, self.dim, self.dropout = before, dim, nn.Dropout(dropout)
        sizes = [before.dim, *[dim] * layers]
        self.layers = nn.ModuleList(nn.Conv1d(a, b, width, padding=width // 2) for a, b in itertools.pairwise(sizes))

    def forward(self, batch: Batch) -> Encoded:
        encoded = self.before(batch)
        hidden = encoded.values.transpose(1, 2)
        for layer in self.layers:
            hidden = F.relu(layer(hidden.masked_fill(~encoded.real[:, None], 0.0)))
        return Encoded(self.dropout(hidden.transpose(1, 2)), encoded.items, encoded.over, real=encoded.real)
