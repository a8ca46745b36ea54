"""A tile: (batch, head, query, key) indices of a block of pairs.

Structures, pointwise modifiers and random numbers are functions of these indices, never of a stored n x m tensor.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .philox import philox


@dataclass(frozen=True, eq=False)
class Tile:
    """Index tensors that broadcast to (g, r, c): g heads of the batch, r queries, c keys.

    batch, head  (g, 1, 1); query (1, r, 1); key (1, 1, c), or (1, r, c) where each query has keys of its own (edges).
    n, m are the whole sizes. `start` is the first key of a contiguous tile, else None; `edge` (1, r, c) the edge ids.
    """

    batch: Tensor
    head: Tensor
    query: Tensor
    key: Tensor
    n: int
    m: int
    start: int | None = None
    edge: Tensor | None = None

    @staticmethod
    def dense(
        heads: int, n: int, m: int, device: torch.device, slab: slice, rows: slice | Tensor, cols: slice | Tensor
    ) -> "Tile":
        """Rows and columns as slices (or 1-D index tensors); slab is a range of the flattened batch x heads."""
        flat = torch.arange(slab.start, slab.stop, device=device)[:, None, None]
        start = cols.start if isinstance(cols, slice) else None
        return Tile(
            flat // heads,
            flat % heads,
            _line(rows, device)[None, :, None],
            _line(cols, device)[None, None, :],
            n,
            m,
            start,
        )

    @staticmethod
    def whole(batch: int, heads: int, n: int, m: int, device: torch.device) -> "Tile":
        return Tile.dense(heads, n, m, device, slice(0, batch * heads), slice(0, n), slice(0, m))

    def uniform(self, seed: Tensor) -> Tensor:
        """Uniform numbers in (0, 1), fp32 (g, r, c): Philox on (seed, batch, head, query, key), or on the edge id.

        23 bits and a half step, so neither 0 nor 1 occurs and both logarithms of a Gumbel draw are finite.
        """
        if self.edge is not None:
            words = philox(seed, self.edge, torch.zeros_like(self.edge), self.head // 4, self.batch)
            word = torch.stack(torch.broadcast_tensors(*words), -1)
            lane = (self.head % 4).expand(word.shape[:-1])
            return _to_unit(word.gather(-1, lane.unsqueeze(-1)).squeeze(-1))
        if self.start is not None:
            stop = self.start + self.key.shape[-1]
            quads = torch.arange(self.start // 4, (stop + 3) // 4, device=self.key.device)[None, None, :]
            words = torch.broadcast_tensors(*philox(seed, quads, self.query, self.head, self.batch))
            shift = self.start - 4 * (self.start // 4)
            return _to_unit(torch.stack(words, -1).flatten(-2)[..., shift : shift + stop - self.start])
        words = torch.broadcast_tensors(*philox(seed, self.key // 4, self.query, self.head, self.batch))
        word = torch.stack(words, -1)
        lane = (self.key % 4).expand(word.shape[:-1])
        return _to_unit(word.gather(-1, lane.unsqueeze(-1)).squeeze(-1))

    def normal(self, seed: Tensor) -> Tensor:
        """Standard normal numbers: the inverse of the distribution function at U."""
        return 2**0.5 * torch.erfinv(2 * self.uniform(seed) - 1)

    def gumbel(self, seed: Tensor) -> Tensor:
        """-log(-log U): the argmax of score + noise is a sample from the softmax of the scores."""
        return _gumbel(self.uniform(seed))

    def gumbel_of_sink(self, seed: Tensor) -> Tensor:
        """(g, r, 1): the noise of one extra key, column m; on edges a counter of its own for each row."""
        if self.edge is None:
            column = self.query.new_full((1, 1, 1), self.m)
            return Tile(self.batch, self.head, self.query, column, self.n, self.m).gumbel(seed)
        words = philox(seed, self.query, torch.ones_like(self.query), self.head // 4, self.batch)
        word = torch.stack(torch.broadcast_tensors(*words), -1)
        return _gumbel(_to_unit(word.gather(-1, (self.head % 4).expand(word.shape[:-1]).unsqueeze(-1)).squeeze(-1)))


def _line(index: slice | Tensor, device: torch.device) -> Tensor:
    return torch.arange(index.start, index.stop, device=device) if isinstance(index, slice) else index


def _gumbel(uniform: Tensor) -> Tensor:
    return -torch.log(-torch.log(uniform))


def _to_unit(word: Tensor) -> Tensor:
    return ((word >> 9).float() + 0.5) * 2.0**-23  # fp32 holds 23 bits and a half; 24 would round up to 1
