"""The lowered problem, flattened over batch and heads, and its rows in blocks that fit in memory.

A block holds whole rows (all keys that the structure allows), so that any alignment applies by its definition; memory
is O(rows x keys) for a fixed number of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..alignments import Alignment, Bell
from ..scores.score import Lowered
from ..structures import Structure
from ..structures.edges import neighbours_of
from .score_kernels import EdgePart, Index, OpaqueCore
from .serialization import Spec, transform
from .tiles import Tile

BLOCK_BUDGET = 1 << 19  # scores of a block: two megabytes in fp32


@dataclass(frozen=True, eq=False)
class Problem(Spec):
    """The inputs of a kernel except the values, flattened over g = batch x heads."""

    score: Lowered
    align: Alignment
    structure: Structure
    heads: int
    factor: Bell | None = None
    dropout: float = 0.0
    seed: Tensor | None = None
    sample: bool = False
    alpha: Tensor | None = None  # (g,), of learned entmax
    edge_value: EdgePart | None = None  # edge values, added to the value of the source

    @property
    def g(self) -> int:
        return self.score.core.a.shape[0]

    @property
    def n(self) -> int:
        return self.score.core.a.shape[1]

    @property
    def m(self) -> int:
        return self.score.core.b.shape[1]

    @property
    def device(self) -> torch.device:
        return self.score.core.a.device

    def in_full_precision(self) -> "Problem":
        """Half-precision tensors as fp32: statistics and sums are never accumulated in 16 bits."""

        def widen(x: Tensor) -> Tensor:
            return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x

        made: Problem = transform(self, widen)
        return made


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of some heads, with the columns they may attend."""

    slab: slice
    rows: Index
    cols: Index
    tile: Tile

    @property
    def ids(self) -> Tensor | None:
        """(r, c) the edge of each pair, -1 for padding."""
        return None if self.tile.edge is None else self.tile.edge[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(g, r, c)"""
        rows = self.rows.stop - self.rows.start if isinstance(self.rows, slice) else self.rows.shape[0]
        cols = self.cols.stop - self.cols.start if isinstance(self.cols, slice) else self.cols.shape[-1]
        return self.slab.stop - self.slab.start, rows, cols


def blocks(problem: Problem) -> Iterator[Block]:
    """Every row once, BLOCK_BUDGET scores at a time. Dense structures give slices, edges rows grouped by degree."""
    budget = BLOCK_BUDGET  # read at each call, so that tests can make blocks small
    n, m, heads = problem.n, problem.m, problem.heads
    if problem.g == 0 or n == 0:
        return
    width = problem.score.features or 1
    unit = heads if isinstance(problem.score.core, OpaqueCore) else 1  # a user's score is called on whole items
    graph = neighbours_of(problem.structure)
    if graph is not None:
        for slab in _slabs(problem.g, max(1, budget // max(1, graph.source.shape[0] * width)), unit):
            size = slab.stop - slab.start
            for targets in graph.blocks(max(1, budget // (size * width))):
                yield edge_block(problem, slab, targets)
        return
    wide = max(1, m * width)
    for slab in _slabs(problem.g, max(1, budget // (n * wide)), unit):
        step = min(problem.score.core.most_rows, max(1, budget // ((slab.stop - slab.start) * wide)))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            cols = slice(*problem.structure.span(heads, slab, rows, n, m))
            yield dense_block(problem, slab, rows, cols)


def _slabs(g: int, size: int, unit: int) -> Iterator[slice]:
    size = max(unit, size // unit * unit)
    for start in range(0, g, size):
        yield slice(start, min(g, start + size))


def dense_block(problem: Problem, slab: slice, rows: Index, cols: Index) -> Block:
    tile = Tile.dense(problem.heads, problem.n, problem.m, problem.device, slab, rows, cols)
    return Block(slab, rows, cols, tile)


def edge_block(problem: Problem, slab: slice, rows: Tensor) -> Block:
    graph = neighbours_of(problem.structure)
    assert graph is not None
    source, edge = graph.padded(rows)
    flat = torch.arange(slab.start, slab.stop, device=problem.device)[:, None, None]
    heads = problem.heads
    tile = Tile(flat // heads, flat % heads, rows[None, :, None], source[None], problem.n, problem.m, None, edge[None])
    return Block(slab, rows, source, tile)
