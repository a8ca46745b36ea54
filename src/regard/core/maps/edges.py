"""Maps over edges: weights in the caller's edge order; a dense read sums repeated edges."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..autocast import without_autocast
from ..lowering import blocks, blockwise
from ..structures.edges import Neighbours

if TYPE_CHECKING:
    from .lazy import LazyMap


def edge_weights(amap: "LazyMap", grad: bool, dropout: bool) -> Tensor:
    """(g, [F,] E + nodes): the caller's edges in the caller's order, then the added self-loops."""
    problem = amap.live if grad else amap.problem
    graph = _graph(amap)
    features = problem.score.features
    size = graph.edges + amap.n
    heads = amap.slab.stop - amap.slab.start
    shape = (heads, size) if features is None else (heads, features, size)
    out = torch.zeros(shape, dtype=_dtype(problem), device=problem.device)
    for block, w in _blocks(amap, grad, dropout):
        edge = block.tile.edge
        assert edge is not None
        real = edge[0] >= 0
        found = w[..., real].to(out.dtype)
        out = out.index_copy(-1, edge[0][real], found) if grad else out.index_copy_(-1, edge[0][real], found)
    return out


def entropy(amap: "LazyMap") -> Tensor:
    """(g, [F,] n), row block by row block, without a tensor over all edges."""
    out = _rows(amap)
    for block, w in _blocks(amap, False, False):
        out[..., block.rows] = -torch.xlogy(w, w).sum(-1).to(out.dtype)
    return out


def mass(amap: "LazyMap") -> Tensor:
    """(g, [F,] m): the total weight of each source."""
    out = _rows(amap)
    out = out.new_zeros((*out.shape[:-1], amap.m))
    for block, w in _blocks(amap, False, False):
        assert block.tile.edge is not None
        real = block.tile.edge[0] >= 0
        out.index_add_(-1, block.tile.key[0][real], w[..., real].to(out.dtype))
    return out


def strongest(amap: "LazyMap", k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, sources and edge ids (g, [F,] n, k) of each row's k largest weights."""
    weight = _rows(amap)[..., None].repeat_interleave(k, -1)
    source, edge = (torch.full(weight.shape, -1, device=weight.device) for _ in range(2))
    for block, w in _blocks(amap, False, False):
        ids = block.tile.edge
        assert ids is not None
        best = w.masked_fill(ids[0] < 0, -1.0).topk(min(k, w.shape[-1]), -1)  # exclude padding
        there, take = best.values > 0, best.values.shape[-1]
        place = (..., block.rows, slice(0, take))
        weight[place] = best.values.clamp_min(0.0).to(weight.dtype)
        source[place] = block.tile.key[0].expand(w.shape).gather(-1, best.indices).where(there, -1)
        edge[place] = ids[0].expand(w.shape).gather(-1, best.indices).where(there, -1)
    return weight, source, edge


def _rows(amap: "LazyMap") -> Tensor:
    """Zeros, one a row: (g, [F,] n)."""
    problem = amap.problem
    features = () if problem.score.features is None else (problem.score.features,)
    heads = amap.slab.stop - amap.slab.start
    return torch.zeros((heads, *features, amap.n), dtype=_dtype(problem), device=problem.device)


def _blocks(amap: "LazyMap", grad: bool, dropout: bool) -> "Iterator[tuple[blocks.Block, Tensor]]":
    problem = amap.live.in_full_precision() if grad else amap.problem
    graph = _graph(amap)
    heads = max(1, (amap.slab.stop - amap.slab.start) * (problem.score.features or 1))
    for rows in graph.blocks(max(1, blocks.BLOCK_BUDGET // heads)):
        with torch.set_grad_enabled(grad and torch.is_grad_enabled()), without_autocast(problem.device):
            if grad:
                block = blocks.edge_block(problem, slice(0, problem.g), rows)
                w = blockwise.weights_with_gradient(problem, block, dropout)[amap.slab]
            else:
                block = blocks.edge_block(problem, amap.slab, rows)
                w = blockwise.scaled(problem, block, amap.block_weights(block), dropout)
        yield block, w


def band(amap: "LazyMap", rows: "slice | Tensor", cols: "slice | Tensor", dropout: bool = False) -> Tensor:
    """A dense tile (g, [F,] r, c); weights of repeated edges are summed."""
    line = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    problem = amap.problem
    line = line.to(problem.device)
    block = blocks.edge_block(problem, amap.slab, line)
    w = blockwise.scaled(problem, block, amap.block_weights(block), dropout)
    assert block.tile.edge is not None
    w = w.masked_fill(block.tile.edge[0] < 0, 0.0)
    dense = w.new_zeros((*w.shape[:-1], amap.m))
    dense.scatter_add_(-1, block.tile.key[0].expand(w.shape), w)
    return dense[..., cols]


def counts(amap: "LazyMap", rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
    """Number of edges between each pair, (g, r, c)."""
    line = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    problem = amap.problem
    block = blocks.edge_block(problem, amap.slab, line.to(problem.device))
    keep = problem.structure.allowed(block.tile)
    assert keep is not None
    keep = keep.expand(block.shape).long()
    dense = keep.new_zeros((*keep.shape[:-1], amap.m))
    dense.scatter_add_(-1, block.tile.key[0].expand(keep.shape), keep)
    return dense[..., cols]


def _graph(amap: "LazyMap") -> Neighbours:
    graph = amap.graph
    assert graph is not None
    return graph


def _dtype(problem: blocks.Problem) -> torch.dtype:
    return torch.float64 if problem.score.core.a.dtype == torch.float64 else torch.float32
