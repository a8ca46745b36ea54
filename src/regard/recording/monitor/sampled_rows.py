"""A sample of rows of one attention call, computed alone: O(rows x m), never n x m."""

import random
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.lowering import blockwise
from regard.core.lowering.blocks import Problem, dense_block, edge_block
from regard.core.lowering.tiles import Tile
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap
from regard.core.structures import Structure
from regard.core.structures.edges import Neighbours

from ..capture.edges.edge_maps import EdgeMap

ITEMS = 4  # of a batch, from which rows are drawn
BUDGET = 1 << 23  # weights at a time, over all heads: 32 megabytes in fp32


class SampledRows(NamedTuple):
    """Rows of weights: w and open (H, r, c); peak (H, r) the largest score of each; key (c,) or (r, c); item and place
    (r,) where they stand; first (r,) the first real key of their item.

    peak is None where only weights are known; features are counted as rows.
    """

    item: Tensor
    w: Tensor
    peak: Tensor | None
    open: Tensor
    key: Tensor
    place: Tensor
    first: Tensor


def sampled(amap: AttentionMap, rows: int, seed: str, peak: Tensor | None = None) -> Iterator[SampledRows]:
    """About `rows` rows of a map, drawn from a few items of the batch and among rows that are no padding.

    peak   (B, H, n, 1), the largest score of each row of a map that has weights alone
    """
    draw = random.Random(seed)
    amap = copy(amap)  # what a map computes of itself is kept by the copy, and goes with it
    heads = amap.heads
    items = (amap.slab.stop - amap.slab.start) // heads
    if not items or not amap.n or not amap.m:
        return
    chosen = sorted(draw.sample(range(items), min(items, ITEMS, rows)))
    for place, item in enumerate(chosen):
        count = rows // len(chosen) + (place < rows % len(chosen))
        slab = slice(amap.slab.start + item * heads, amap.slab.start + (item + 1) * heads)
        real = _real(amap, slab)
        first = torch.zeros((), dtype=torch.long) if real is None else real.to(torch.uint8).argmax()
        among = range(amap.n) if real is None or not bool(real.any()) else real.nonzero()[:, 0].tolist()
        line = sorted(draw.sample(among, min(count, len(among))))
        for part in _parts(amap, line, heads):
            own = torch.full_like(part, item), part, first.to(part.device).expand(part.shape)
            yield _read(amap, slab, own, None if peak is None else peak[item, :, part, 0])


def merged(parts: Iterable[SampledRows]) -> Iterator[SampledRows]:
    """Parts that have the same keys as one, within the budget: fewer and larger tensors."""
    waiting: list[SampledRows] = []
    for part in parts:
        size = part.w.numel() + sum(x.w.numel() for x in waiting)
        if waiting and (part.key.ndim > 1 or waiting[0].key.ndim > 1 or size > BUDGET):
            yield _joined(waiting)
            waiting = []
        waiting.append(part)
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[SampledRows]) -> SampledRows:
    if len(parts) == 1:
        return parts[0]
    peaks = [x.peak for x in parts if x.peak is not None]
    return SampledRows(
        torch.cat([x.item for x in parts]),
        torch.cat([x.w for x in parts], 1),
        torch.cat(peaks, 1) if peaks else None,
        torch.cat([x.open.expand(x.w.shape) for x in parts], 1),
        parts[0].key,
        torch.cat([x.place for x in parts]),
        torch.cat([x.first for x in parts]),
    )


def _parts(amap: AttentionMap, line: list[int], heads: int) -> "Iterator[Tensor]":
    device = amap.live.device if isinstance(amap, LazyMap) else amap.none().device
    graph = _graph(amap)
    rows = torch.tensor(line, dtype=torch.long, device=device)
    if graph is not None:  # rows of alike degree together, so that hubs do not widen the others
        degree = graph.start.diff()[rows]
        rows = rows[torch.argsort(degree)]
        yield from rows.split(8)
        return
    step = max(1, BUDGET // max(1, heads * (amap.features or 1) * amap.m))
    yield from rows.split(step)


def _graph(amap: AttentionMap) -> Neighbours | None:
    graph = getattr(amap, "graph", None)
    return graph if graph is None or isinstance(graph, Neighbours) else graph.neighbours


def _real(amap: AttentionMap, slab: slice) -> Tensor | None:
    """(n,) the rows of self-attention that may see themselves, which padding may not; None where nothing says so."""
    if amap.n != amap.m or _graph(amap) is not None:
        return None
    if isinstance(amap, LazyMap):
        structure: Structure = amap.live.structure
        line = torch.arange(amap.n, device=amap.live.device)
        flat = torch.arange(slab.start, slab.stop, device=line.device)[:, None, None]
        heads = amap.live.heads
        tile = Tile(flat // heads, flat % heads, line[None, :, None], line[None, :, None], amap.n, amap.m)
        open_ = structure.allowed(tile)
        return None if open_ is None else open_.expand(-1, amap.n, -1).any(0)[:, 0]
    stored = getattr(amap, "stored", None)
    if stored is None:
        return None
    diagonal = torch.diagonal(stored[slab], dim1=-2, dim2=-1)  # (H, [F,] n)
    return (diagonal > 0).flatten(0, -2).any(0)


Own = tuple[Tensor, Tensor, Tensor]  # of each row its item, its place, and the first real key


def _read(amap: AttentionMap, slab: slice, own: Own, peak: Tensor | None) -> SampledRows:
    item, rows, first = own
    if isinstance(amap, LazyMap):
        return _lazy(amap, slab, own)
    if isinstance(amap, EdgeMap):
        source, edge = amap.graph.neighbours.padded(rows)
        open_ = (edge >= 0)[None]
        w = amap.weight.detach()[slab][..., edge.clamp_min(0)].masked_fill(edge < 0, 0.0)
        return _flat(SampledRows(item, w, None, open_, source, rows, first))
    w = _stored(amap, slab, rows)
    keep = getattr(amap, "keep", None)
    # A written matrix has no mask: what no head gives any weight counts as closed.
    open_ = (w != 0).flatten(0, -3).any(0)[None] if keep is None else keep[slab][:, rows]
    return _flat(SampledRows(item, w, peak, open_, torch.arange(amap.m, device=w.device), rows, first))


def _stored(amap: Any, slab: slice, rows: Tensor) -> Tensor:
    stored = getattr(amap, "stored", None)
    if stored is not None:
        made: Tensor = stored.detach()[slab][..., rows, :]
        return made.float() if made.dtype.itemsize < 4 else made
    band: Tensor = amap.band(rows, slice(0, amap.m))
    return band[slab.start - amap.slab.start : slab.stop - amap.slab.start]


def _lazy(amap: LazyMap, slab: slice, own: Own) -> SampledRows:
    item, rows, first = own
    problem: Problem = amap.problem
    block = edge_block(problem, slab, rows) if amap.graph else dense_block(problem, slab, rows, slice(0, amap.m))
    s = blockwise.scores(problem, block)
    if amap._state is not None:  # the kernel has returned it: what was chosen is not chosen again
        w = amap.block_weights(block)
    else:
        w = blockwise.state_and_weights(problem, block, s)[1][..., : s.shape[-1]]
    w = blockwise.scaled(problem, block, w, dropout=False)
    open_ = s > float("-inf")
    open_ = open_ if s.ndim == 3 else open_.any(1)
    key = torch.arange(amap.m, device=s.device) if block.tile.edge is None else block.tile.key[0]
    peak = s.amax(-1).expand(w.shape[:-1]) if problem.align.uses_scores and amap.m else None  # -inf of an empty row
    return _flat(SampledRows(item, w, peak, open_, key, rows, first))


def _flat(made: SampledRows) -> SampledRows:
    """Weights that each feature has for itself, (H, F, r, c), as those of F times as many rows."""
    if made.w.ndim == 3:
        return made
    times = made.w.shape[1]
    key = made.key if made.key.ndim == 1 else made.key.repeat(times, 1)
    peak = None if made.peak is None else made.peak.flatten(1, 2)
    return SampledRows(
        made.item.repeat(times),
        made.w.flatten(1, 2),
        peak,
        made.open.repeat(1, times, 1),
        key,
        made.place.repeat(times),
        made.first.repeat(times),
    )
