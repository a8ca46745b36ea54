"""Pyramids: exact multi-resolution summaries of a map of any size, in O(n d + cells) memory.

A cell of level 0 covers cell x cell weights and stores their sum (mass), maximum (peak; for differences the value of
largest magnitude) and the number of allowed pairs (count). Four cells form one of the next level: sums and maxima are
associative, so every level is exact. The peak bounds every weight in its cell, so that search is exact too.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import Refused
from .attention_map import AttentionMap, operation

SLACK = 1 - 1e-4  # of a threshold: a weight computed in another tile may differ by rounding
CELLS = 1 << 26  # weights of cells computed at a time by a search


class FoundWeights(NamedTuple):
    """Where weights exceed a threshold: `where` (count, axes) indexes weights(), `weight` (count,) their values."""

    where: Tensor
    weight: Tensor


@dataclass(frozen=True, eq=False)
class Level:
    """One level: each (..., H, [F,] rows of cells, columns of cells); count has no feature axis.

    mass = sum of weights, peak = largest weight, count = allowed pairs; mean weight = mass / count.
    """

    size: int  # side of a cell, in weights
    mass: Tensor
    peak: Tensor
    count: Tensor


@dataclass(frozen=True, eq=False)
class Pyramid:
    """Levels, finest first, up to a single cell."""

    cell: int
    levels: tuple[Level, ...]

    def __getitem__(self, level: int) -> Level:
        return self.levels[level]

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def bytes(self) -> int:
        return sum(x.numel() * x.element_size() for level in self.levels for x in (level.mass, level.peak, level.count))


def default_cell(n: int, m: int) -> int:
    """A power of two that keeps level 0 within about 1024 x 1024 cells, and at least 8 x 8 weights a cell."""
    return max(8, 1 << max(0, math.ceil(math.log2(max(1, n, m) / 1024))))


@operation
def build_pyramid(amap: AttentionMap, cell: int | None = None) -> Pyramid:
    """One pass over the rows in bands of whole cells; the levels above by 2 x 2 reduction."""
    cell = default_cell(amap.n, amap.m) if cell is None else cell
    if cell < 1:
        raise ValueError(f"pyramid(cell={cell}): expected the side of a cell, 1 or more.")
    if amap.n == 0 or amap.m == 0:
        return Pyramid(cell, ())
    peak = "farthest" if amap.signed else "max"
    parts = list(amap.cells(cell) or ())
    for rows in _bands(amap, cell) if not parts else ():
        first, last = amap.reach(rows)  # skip columns outside: half of a causal map
        cols = slice(first // cell * cell, min(amap.m, -(-max(first + 1, last) // cell) * cell))
        w, allowed = amap.band(rows, cols), amap.allowed(rows, cols)
        pooled = [_pooled(w, cell, "sum"), _pooled(w, cell, peak), _pooled(allowed, cell, "sum")]
        if not parts:  # preallocated, so that results between large bands do not fragment memory
            cells = -(-amap.n // cell), -(-amap.m // cell)
            parts = [part.new_zeros((*part.shape[:-2], *cells)) for part in pooled]
        row, column = rows.start // cell, cols.start // cell
        for whole, part in zip(parts, pooled, strict=True):
            whole[..., row : row + part.shape[-2], column : column + part.shape[-1]] = part
    levels, size = [], cell
    while True:
        levels.append(Level(size, *(part.reshape(*amap.lead, *part.shape[1:]) for part in parts)))
        if parts[0].shape[-1] == 1 and parts[0].shape[-2] == 1:
            return Pyramid(cell, tuple(levels))
        parts = [_pooled(part, 2, how) for part, how in zip(parts, ("sum", peak, "sum"), strict=True)]
        size *= 2


def _bands(amap: AttentionMap, cell: int) -> list[slice]:
    heads = (amap.slab.stop - amap.slab.start) * (amap.features or 1)
    step = max(1, amap.budget() // max(1, heads * amap.m * cell)) * cell
    return [slice(start, min(amap.n, start + step)) for start in range(0, amap.n, step)]


def _pooled(x: Tensor, side: int, how: str) -> Tensor:
    """(..., r, c) -> (..., ceil(r / side), ceil(c / side)). 0 pads: values are non-negative but for "farthest"."""
    r, c = x.shape[-2:]
    x = F.pad(x, (0, -c % side, 0, -r % side))
    x = x.unflatten(-1, (-1, side)).unflatten(-3, (-1, side))
    if how == "sum":
        return x.sum((-1, -3))
    high = x.amax((-1, -3))
    if how == "max":
        return high
    low = x.amin((-1, -3))
    return torch.where(-low > high, low, high)


@operation
def find(amap: AttentionMap, threshold: float) -> FoundWeights:
    """Every weight above the threshold. With a pyramid, cells whose peak lies below are never computed."""
    if threshold < 0:
        raise ValueError(f"find(threshold={threshold}): expected 0 or more; weights are not negative.")
    if amap.signed:
        raise Refused(
            "find() looks for weights above a threshold, and differences are signed: read them by bands() "
            "or use the pyramid's peaks, the values of largest magnitude."
        )
    where, weight = [], []
    for places, values in _above(amap, threshold):
        where.append(places)
        weight.append(values)
    if not where:
        none = amap.none()
        return FoundWeights(none.new_zeros((0, len(amap.shape)), dtype=torch.long), none.new_zeros(0))
    places, values = torch.cat(where), torch.cat(weight)
    line = torch.zeros_like(places[:, 0])
    for axis, size in enumerate((1, *amap.shape[len(amap.lead) :])):  # row order of weights()
        line = line * size + places[:, axis]
    order = torch.argsort(line)
    return FoundWeights(_unflat(places[order], amap), values[order])


def _above(amap: AttentionMap, threshold: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Places (count, axes), heads in one axis, and weights above the threshold, part by part."""
    if amap._pyramid is not None and len(amap._pyramid) and (made := _by_cells(amap, amap._pyramid, threshold)):
        yield from made
        return
    bands = _promising(amap, threshold) if amap._pyramid is not None else None
    for rows, cols in bands if bands is not None else [(rows, slice(0, amap.m)) for rows in _bands(amap, 1)]:
        w = amap.band(rows, cols)
        place = (w > threshold).nonzero()
        values = w[tuple(place.T)]
        place[:, -1] += cols.start
        place[:, -2] += rows.start
        yield place, values


def _by_cells(amap: AttentionMap, pyramid: Pyramid, threshold: float) -> list[tuple[Tensor, Tensor]]:
    """The same from cells whose peak may exceed the threshold, batched; empty if the map cannot read cells."""
    cell, peak = pyramid.cell, pyramid[0].peak
    if (
        amap.features is not None
        or amap.within(torch.zeros((0, 3), dtype=torch.long, device=peak.device), cell) is None
    ):
        return []
    places = (peak.reshape(-1, *peak.shape[-2:]) >= threshold * SLACK).nonzero()
    found = []
    for some in places.split(max(1, CELLS // cell**2)) or (places,):
        w = amap.within(some, cell)
        assert w is not None
        at = (w > threshold).nonzero()
        owner = some[at[:, 0]]
        values = w[tuple(at.T)]
        found.append((torch.cat([owner[:, :1], owner[:, 1:] * cell + at[:, 1:]], 1), values))
    return found


def _promising(amap: AttentionMap, threshold: float) -> list[tuple[slice, slice]]:
    """Tiles of level 0 whose peak in any head may exceed the threshold, by descending the pyramid."""
    pyramid = amap._pyramid
    assert pyramid is not None
    if not len(pyramid):
        return []
    slack = threshold * SLACK
    live = None
    for level in reversed(pyramid.levels):
        peak = level.peak.flatten(0, -3).amax(0) if level.peak.ndim > 2 else level.peak
        hit = peak >= slack
        if live is not None:
            above = live.repeat_interleave(2, 0).repeat_interleave(2, 1)[: hit.shape[0], : hit.shape[1]]
            hit = hit & above
        live = hit
    assert live is not None
    side = pyramid.cell
    return [
        (slice(i * side, min(amap.n, (i + 1) * side)), slice(j * side, min(amap.m, (j + 1) * side)))
        for i, j in live.nonzero().tolist()
    ]


def _unflat(places: Tensor, amap: AttentionMap) -> Tensor:
    """The flattened head index back to the leading axes of weights()."""
    head, rest = places[:, 0], places[:, 1:]
    axes = []
    for size in reversed(amap.lead):
        axes.append(head % size)
        head = head // size
    return torch.cat([*(axis[:, None] for axis in reversed(axes)), rest], 1)
