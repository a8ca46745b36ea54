"""Maps over edges: weights stand on the caller's edges; a dense read of a graph adds up edges that repeat."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import evaluate
from .alignments import RowState
from .edges import Neighbours

if TYPE_CHECKING:
    from .maps import LazyMap


def edge_weights(amap: "LazyMap", grad: bool, dropout: bool) -> Tensor:
    """(g, [F,] E + nodes): the caller's edges in the caller's order, then the loops that were added."""
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


def _blocks(amap: "LazyMap", grad: bool, dropout: bool) -> "list[tuple[evaluate.Block, Tensor]]":
    problem = amap.live if grad else amap.problem
    graph = _graph(amap)
    heads = max(1, (amap.slab.stop - amap.slab.start) * (problem.score.features or 1))
    found = []
    with torch.set_grad_enabled(grad and torch.is_grad_enabled()):
        for rows in graph.blocks(max(1, evaluate.BLOCK_BUDGET // heads)):
            if grad:
                block = evaluate.edge_block(problem, slice(0, problem.g), rows)
                found.append((block, evaluate.weights_with_gradient(problem, block, dropout)[amap.slab]))
                continue
            block = evaluate.edge_block(problem, amap.slab, rows)
            state: RowState = evaluate.pick(amap.state, amap.slab, rows)
            w = evaluate.weights(problem, block, evaluate.scores(problem, block), state)
            found.append((block, evaluate.scaled(problem, block, w, dropout)))
    return found


def band(amap: "LazyMap", rows: "slice | Tensor", cols: "slice | Tensor", dropout: bool = False) -> Tensor:
    """A dense tile (g, [F,] r, c); weights of repeated edges add up."""
    line = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    problem = amap.problem
    line = line.to(problem.device)
    block = evaluate.edge_block(problem, amap.slab, line)
    w = evaluate.weights(problem, block, evaluate.scores(problem, block), evaluate.pick(amap.state, amap.slab, line))
    w = evaluate.scaled(problem, block, w, dropout)
    assert block.tile.edge is not None
    w = w.masked_fill(block.tile.edge[0] < 0, 0.0)
    dense = w.new_zeros((*w.shape[:-1], amap.m))
    dense.scatter_add_(-1, block.tile.key[0].expand(w.shape), w)
    return dense[..., cols]


def counts(amap: "LazyMap", rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
    """How many edges join each pair, (g, r, c)."""
    line = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    problem = amap.problem
    block = evaluate.edge_block(problem, amap.slab, line.to(problem.device))
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


def _dtype(problem: evaluate.Problem) -> torch.dtype:
    return torch.float64 if problem.score.core.a.dtype == torch.float64 else torch.float32
