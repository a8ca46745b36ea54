"""Lazy maps: weights that are computed when they are read.

A lazy map keeps the plan (queries, keys, structure) and a small state for each row; any row, column or tile follows
exactly, w_ij = g_ij f(s_ij - tau_i), without an n x m matrix.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from ..alignments import RowState
from ..alignments.alignment import tau_rounding_matters
from ..autocast import without_autocast
from ..errors import Refused
from ..lowering import blockwise
from ..lowering.blocks import Block, Problem, blocks, dense_block
from ..lowering.serialization import Parts, decode, encode, transform
from ..mutation_guard import WatchedTensors, check_unchanged, watch
from ..registry import MapReader, first
from ..structures.edges import Neighbours, neighbours_of
from ..torch_private import register_pytree_node
from . import edges
from .attention_map import BAND, AttentionMap, Strongest, _count, lead_of

if TYPE_CHECKING:
    from ..plan import Plan
    from ..plan_cache import LazyPlan

T = TypeVar("T")


class LazyMap(AttentionMap):
    """A map computed from the plan and its row state when it is read; reads are detached."""

    def __init__(
        self,
        source: "Plan | LazyPlan | Problem",
        state: RowState | None,
        lead: tuple[int, ...],
        slab: slice,
        replayable: bool = True,
        index: Tensor | None = None,
        watched: WatchedTensors | None = None,
    ):
        if watched is None:
            source, watched = (source, ()) if torch.compiler.is_compiling() else watch(cast("Plan | Problem", source))
        self._source, self._state, self._index = source, state, index
        self._ready: Problem | None = None
        self.entropy_of_rows: Tensor | None = None  # (g, [F,] n), where the call computed it
        self.reader_cache: tuple[Any, ...] | None = None  # a map reader's lowered form of this map
        self._apart: tuple[RowsApart | None] | None = None
        self.replayable = replayable
        self._watched = watched
        super().__init__(lead, source.n, source.m, slab)

    @staticmethod
    def of_plan(
        plan: "Plan", state: RowState | None, index: Tensor | None, watched: WatchedTensors | None = None
    ) -> "LazyMap":
        """watched=() for tensors without other owners."""
        whole = slice(0, plan.batch * plan.heads)
        return LazyMap(plan, state, lead_of(plan), whole, plan.replayable, index, watched)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "LazyMap":
        made = LazyMap(self._source, self.state, lead, slab, self.replayable, watched=self._watched)
        made._ready, made._apart, made.entropy_of_rows = self._ready, (self.apart,), self.entropy_of_rows
        return made

    @property
    def features(self) -> int | None:  # type: ignore[override]
        return self.live.score.features

    @property
    def plan(self) -> "Plan | None":
        """The plan of the call, built now if the call ran without one; None if the map has a lowered problem only."""
        if isinstance(self._source, Problem):
            return None
        source: Any = self._source
        plan: Plan = getattr(source, "plan", source)  # a LazyPlan has one
        return plan

    @property
    def live(self) -> "Problem":
        """The lowered problem with its autograd graph."""
        if isinstance(self._source, Problem):
            return self._source
        with without_autocast(self._source.q.device):  # a score that was not lowered yet is lowered here
            return self._source.problem

    @property
    def problem(self) -> "Problem":
        """The lowered problem in full precision, detached, cached; an error if an input changed in place."""
        check_unchanged(self._watched)
        if self._ready is None:
            bare: Problem = transform(self.live, lambda x: x.detach())
            self._ready = bare.in_full_precision()
        return self._ready

    @property
    def state(self) -> RowState:
        """The row state of all heads, computed on first use: tau (g, [F,] n), index, scale."""
        if self._state is None:
            with torch.no_grad(), without_autocast(self.live.device):
                check_unchanged(self._watched)
                tau = first(lambda reader: reader.tau(self.live))
                state = state_of(self.problem) if tau is None else RowState(tau)
            self._state = state if self._index is None else state._replace(index=self._index)
        return self._state

    @property
    def apart(self) -> "RowsApart | None":
        """Row maxima and shifted states, for rows whose tau is too large to hold the log of the sum; else None.

        Scores of -1e9 in a whole row (a finite mask) have tau = -1e9 + log n, which fp32 rounds to -1e9.
        """
        if self._apart is None:
            with torch.no_grad(), without_autocast(self.live.device):
                lost = self.live.align.shift_invariant and tau_rounding_matters(self.state.tau)
                self._apart = (apart_of(self.problem, self.state),) if lost else (None,)
        return self._apart[0]

    def block_weights(self, block: Block) -> Tensor:
        """The weights of a block before factor and dropout, (g, [F,] r, c)."""
        problem, apart = self.problem, self.apart
        s = blockwise.scores(problem, block)
        if apart is None:
            return blockwise.weights(problem, block, s, blockwise.pick(self.state, block.slab, block.rows))
        peak = blockwise.pick(RowState(apart.peak), block.slab, block.rows).tau
        return blockwise.weights(
            problem, block, s - peak[..., None], blockwise.pick(apart.state, block.slab, block.rows)
        )

    @property
    def tau(self) -> Tensor:
        """(..., H, [F,] n): log sum exp for softmax, the threshold for entmax, +inf for an empty row."""
        return self._unflat(self.state.tau[self.slab].detach())

    def reach(self, rows: slice) -> tuple[int, int]:
        if self.graph is not None:
            return 0, self.m
        first, last = self.live.structure.span(self.live.heads, self.slab, rows, self.n, self.m)
        return min(first, max(0, self.m - 1)), last

    @property
    def graph(self) -> Neighbours | None:
        """The edges, where the structure has them."""
        return neighbours_of(self.live.structure)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor", dropout: bool = False) -> Tensor:
        with torch.no_grad(), without_autocast(self.live.device):  # no decorator: torch.compile traces none on a method
            if self.graph is not None:
                return edges.band(self, rows, cols, dropout)
            if isinstance(rows, slice) and isinstance(cols, slice) and not (dropout and self.live.dropout):
                check_unchanged(self._watched)
                r, c = rows, cols
                found = self._first(lambda reader: reader.band(self, r, c))
                if found is not None:
                    return found
            if self.live.align.ordered and not (isinstance(cols, slice) and cols.stop - cols.start == self.m):
                return self._columns_of_whole_rows(rows, cols, dropout)
            block = dense_block(self.problem, self.slab, rows, cols)
            return blockwise.scaled(self.problem, block, self.block_weights(block), dropout)

    def _columns_of_whole_rows(self, rows: "slice | Tensor", cols: "slice | Tensor", dropout: bool) -> Tensor:
        """For alignments whose weights depend on all keys of the row: computes whole rows, a few at a time."""
        line = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        step = max(1, BAND // max(1, (self.slab.stop - self.slab.start) * self.m * (self.features or 1)))
        whole = slice(0, self.m)
        parts = [self.band(part, whole, dropout)[..., cols] for part in line.to(self.live.device).split(step)]
        return torch.cat(parts, -2) if parts else self.band(slice(0, 0), whole, dropout)[..., cols]

    @torch.no_grad()
    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        if self.graph is not None:
            return edges.counts(self, rows, cols)
        block = dense_block(self.problem, self.slab, rows, cols)
        keep = self.problem.structure.allowed(block.tile)
        if keep is None:
            return torch.ones(block.shape, dtype=torch.long, device=self.problem.device)
        return keep.expand(block.shape).long()

    def weights(self, grad: bool = False, dropout: bool = False) -> Tensor:
        """All weights, (..., H, [F,] n, m); before dropout by default.

        grad=True differentiates through tau, by the reference. Weights of repeated edges are summed.
        """
        self._check_dropout(dropout)
        check_unchanged(self._watched)
        if grad:
            if self.graph is not None:
                raise Refused(
                    "weights(grad=True) of a graph would be a dense matrix: edges(grad=True) has the gradient."
                )
            wide = self.live.in_full_precision()
            block = dense_block(wide, slice(0, wide.g), slice(0, self.n), slice(0, self.m))
            with without_autocast(wide.device):
                return self._unflat(blockwise.weights_with_gradient(wide, block, dropout)[self.slab])
        return self._unflat(self.band(slice(0, self.n), slice(0, self.m), dropout))

    def _first(self, ask: Callable[[MapReader], T | None]) -> T | None:
        """The result of a map reader; they support states that consist of tau alone."""
        return None if self.apart is not None else first(ask)

    def _check_dropout(self, dropout: bool) -> None:
        if dropout and self.live.dropout and not self.replayable:
            raise Refused(
                "The weights after dropout cannot be recomputed: torch's own dropout ran (backend 'sdpa'). "
                "Pass seed= to attend, which runs a backend whose dropout can be replayed."
            )

    def edges(self, grad: bool = False, dropout: bool = False) -> Tensor:
        """Weights on the caller's edges, in the caller's order: (..., H, [F,] E); before dropout by default."""
        if self.graph is None:
            return super().edges()
        self._check_dropout(dropout)
        check_unchanged(self._watched)
        return self._unflat(edges.edge_weights(self, grad, dropout)[..., : self.graph.edges])

    def entropy(self) -> Tensor:
        """-sum w log w of each row in nats, (..., H, [F,] n), over its edges on a graph; 0 for an empty row."""
        if self.entropy_of_rows is not None:
            return self._unflat(self.entropy_of_rows[self.slab])
        if self.graph is not None:
            return self._unflat(edges.entropy(self))
        check_unchanged(self._watched)
        found = self._first(lambda reader: reader.entropy(self))
        return super().entropy() if found is None else self._unflat(found)

    def mass(self) -> Tensor:
        if self.graph is not None:
            return self._unflat(edges.mass(self))
        check_unchanged(self._watched)
        found = self._first(lambda reader: reader.mass(self))
        return super().mass() if found is None else self._unflat(found)

    def cells(self, cell: int) -> tuple[Tensor, Tensor, Tensor] | None:
        check_unchanged(self._watched)
        return None if self.graph is not None else self._first(lambda reader: reader.cells(self, cell))

    def within(self, places: Tensor, cell: int) -> Tensor | None:
        check_unchanged(self._watched)
        return None if self.graph is not None else self._first(lambda reader: reader.within(self, places, cell))

    def strongest(self, k: int = 1) -> Strongest:
        if self.graph is None:
            return super().strongest(k)
        return Strongest(*(self._unflat(x) for x in edges.strongest(self, _count(k))))

    @property
    def loops(self) -> Tensor:
        """Weights of the added self-loops, (..., H, [F,] nodes); 0 where the caller had a loop edge."""
        if self.graph is None:
            return super().loops
        return self._unflat(edges.edge_weights(self, False, False)[..., self.graph.edges :])


class RowsApart(NamedTuple):
    """Row maxima (g, [F,] n), and the row state of scores minus the maximum."""

    peak: Tensor
    state: RowState


def apart_of(problem: "Problem", state: RowState) -> RowsApart:
    """Row maxima and shifted states, block by block; selected keys are kept from the state."""
    peak, tau = torch.zeros_like(state.tau), torch.full_like(state.tau, float("inf"))
    for block in blocks(problem):
        s = blockwise.scores(problem, block)
        high = blockwise.peak_of(problem, block, s)
        blockwise.put(peak, block, high)
        blockwise.put(tau, block, blockwise.row_state(problem, block, s - high[..., None], high).tau)
    return RowsApart(peak, state._replace(tau=tau))


def state_of(problem: "Problem") -> RowState:
    """The row state of every row, block by block: tau and scale (g, [F,] n), index (g, [F,] n, [k])."""
    shape = (problem.g, problem.n) if problem.score.features is None else (problem.g, problem.score.features, problem.n)
    dtype = torch.float64 if problem.score.core.a.dtype == torch.float64 else torch.float32
    tau = torch.full(shape, float("inf"), dtype=dtype, device=problem.device)
    index = scale = None
    if problem.align.chooses:  # also without blocks: no rows, or no heads
        k = () if problem.align.k is None else (problem.align.k,)
        index = torch.full((*shape, *k), -1, dtype=torch.int32, device=problem.device)
    if problem.align.scales:
        scale = torch.ones_like(tau)
    for block in blocks(problem):
        part = blockwise.row_state(problem, block, blockwise.scores(problem, block))
        blockwise.put(tau, block, part.tau)
        if part.index is not None:
            deep = part.index.shape[part.tau.ndim :]
            if index is None:
                index = torch.full((*shape, *deep), -1, dtype=torch.int32, device=problem.device)
            blockwise.put(index[..., : deep[0]] if deep else index, block, part.index, extra=len(deep))
        if part.scale is not None:
            scale = torch.ones_like(tau) if scale is None else scale
            blockwise.put(scale, block, part.scale)
    return RowState(tau, index, scale)


def _flatten_lazy(amap: LazyMap) -> tuple[list[Any], Any]:
    """Leaves for torch.export and tree_map: the plan's tensors and the row state, if computed."""
    if not amap.live.score.closed:
        return [], amap  # user-defined scores cannot be serialized: the map is a single leaf
    parts = Parts([], [], [])
    text = encode(amap.live, parts)
    constants = (
        text,
        tuple(parts.ints),
        tuple(parts.floats),
        amap.lead,
        amap.slab.start,
        amap.slab.stop,
        amap.replayable,
    )
    return [parts.tensors, amap._state, amap._index], constants


def _unflatten_lazy(leaves: Any, context: Any) -> LazyMap:
    if isinstance(context, LazyMap):
        return context
    text, ints, floats, lead, start, stop, replayable = context
    problem = decode(text, Parts(leaves[0], list(ints), list(floats)))
    return LazyMap(problem, leaves[1], lead, slice(start, stop), replayable, leaves[2])


register_pytree_node(LazyMap, _flatten_lazy, _unflatten_lazy, serialized_type_name="regard.LazyMap")
