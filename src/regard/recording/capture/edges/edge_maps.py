"""Attention over the edges of a graph, as it ran: weights on the caller's edges, and loops that a layer added.

Layers drop the caller's self-loops and append their own, so the weights of a layer stand on another list than the one
it was given. Each edge that ran is found again in the caller's list by its two ends; where a pair repeats, the first
that ran is the first that was given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap, Strongest, _count
from regard.core.structures.edges import Neighbours

from ..gradient_hook import OnError, on_gradient

EdgeType = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class CapturedEdges:
    """edge_index (2, E): the caller's edges, sources first. source, target, edge (E',): those that ran, and their ids
    among the caller's (E + node for a loop that was added). n targets, m sources.

    kinds: where edges have types, the span [start, stop) of each type among the caller's edges.
    """

    edge_index: Tensor
    source: Tensor
    target: Tensor
    edge: Tensor
    n: int
    m: int
    kinds: "Mapping[EdgeType, tuple[int, int]] | None" = None

    @staticmethod
    def of(given: Tensor, used: Tensor, n: int, m: int, kinds: Any = None) -> "CapturedEdges":
        """given and used (2, E), sources first: the caller's edges and those that ran."""
        edge = matched(given, used, n, m)
        if edge is None:  # edges that are neither the caller's nor loops: the layer's own list is all there is
            given, edge = used, torch.arange(used.shape[1], device=used.device)
        return CapturedEdges(given, used[0], used[1], edge, n, m, kinds)

    @property
    def count(self) -> int:
        return self.edge_index.shape[1]

    @property
    def size(self) -> int:
        """How many ids there are: the caller's edges, and a loop for each node."""
        return self.count + max(self.n, self.m)

    @property
    def start(self) -> Tensor:
        """(n + 1,): where the edges of each target begin when they are sorted by target."""
        return self.neighbours.start

    @cached_property
    def neighbours(self) -> Neighbours:
        order = torch.argsort(self.target, stable=True)
        degree = torch.bincount(self.target, minlength=self.n)
        start = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        return Neighbours(start, self.source[order], self.edge[order], self.count)

    def snapshot(self, keep: Callable[[Tensor], Tensor]) -> "CapturedEdges":
        edge_index, source, target, edge = (keep(x) for x in (self.edge_index, self.source, self.target, self.edge))
        return replace(self, edge_index=edge_index, source=source, target=target, edge=edge)


def matched(given: Tensor, used: Tensor, n: int, m: int) -> Tensor | None:
    """The id of each used edge, (E',): its place among the given ones, E + node for a loop that was not given.

    None where an edge is neither, or where two loops were added to one node.
    """
    count = given.shape[1]
    if given is used or (given.shape == used.shape and torch.equal(given, used)):
        return torch.arange(count, device=used.device)
    return _loops_replaced(given, used) if n == m else _by_ends(given, used, m)


def _loops_replaced(given: Tensor, used: Tensor) -> Tensor | None:
    """The usual case, without sorting: the caller's edges but for loops, then one loop for each node in order."""
    count, ran = given.shape[1], used.shape[1]
    others = (given[0] != given[1]).nonzero()[:, 0]
    first = others.shape[0]
    if first > ran or not torch.equal(used[:, :first], given[:, others]):
        return _by_ends(given, used, int(used.max()) + 1 if ran else 1)
    node = torch.arange(ran - first, device=used.device)
    if not torch.equal(used[:, first:], node.expand(2, -1)):
        return _by_ends(given, used, int(used.max()) + 1 if ran else 1)
    loop = (given[0] == given[1]).nonzero()[:, 0]
    loop = loop[given[0][loop] < node.shape[0]]
    own = torch.full_like(node, count).scatter_reduce_(0, given[0][loop], loop, "amin")
    return torch.cat([others, torch.where(own < count, own, count + node)])


def _by_ends(given: Tensor, used: Tensor, m: int) -> Tensor | None:
    count = given.shape[1]
    wide = max(m, int(given[0].max()) + 1 if count else 1)
    have, want = (x[1].long() * wide + x[0].long() for x in (given, used))
    sorted_have, order = torch.sort(have, stable=True)
    sorted_want, back = torch.sort(want, stable=True)
    rank = torch.arange(want.shape[0], device=want.device) - torch.searchsorted(sorted_want, sorted_want)
    place = torch.searchsorted(sorted_have, sorted_want) + rank
    there = place < count
    if count:
        there &= sorted_have[place.clamp_max(count - 1)] == sorted_want
    edge = torch.empty_like(back)
    found = order[place.clamp_max(count - 1)] if count else back
    edge[back] = found.where(there, count + used[1].long()[back])
    added = edge >= count
    loops = used[0][added] == used[1][added]
    if not bool(loops.all()) or torch.unique(edge[added]).numel() != int(added.sum()):
        return None
    return edge


class EdgeMap(AttentionMap):
    """Weights (g, [F,] ids) that stood on the edges of a graph; `edge_index` (2, E) are the caller's edges.

    edges() gives them in the caller's order, loops those of the loops that were added. Of a graph with types,
    kinds[edge_type] is the span of its edges. A caller's loop that a layer replaced carries the weight of the new one.
    """

    def __init__(self, lead: tuple[int, ...], weight: Tensor, graph: CapturedEdges, slab: slice | None = None):
        super().__init__(lead, graph.n, graph.m, slice(0, weight.shape[0]) if slab is None else slab)
        self.features = weight.shape[1] if weight.ndim == 3 else None
        self.weight, self.graph = weight, graph

    @staticmethod
    def of(weights: Tensor, graph: CapturedEdges, lead: tuple[int, ...] | None = None) -> "EdgeMap":
        """From weights (g, [F,] E') in the order in which the edges ran."""
        made = weights.new_zeros((*weights.shape[:-1], graph.size))
        lead = (weights.shape[0],) if lead is None else lead
        return EdgeMap(lead, made.index_copy(-1, graph.edge, weights), graph)

    @property
    def edge_index(self) -> Tensor:
        return self.graph.edge_index

    @property
    def kinds(self) -> "Mapping[EdgeType, tuple[int, int]]":
        return self.graph.kinds or {}

    def edges(self, grad: bool = False) -> Tensor:
        """(..., H, [F,] E), in the caller's order; 0 on an edge that did not run."""
        found = self.weight if grad else self.weight.detach()
        return self._unflat(found[self.slab][..., : self.graph.count])

    @property
    def loops(self) -> Tensor:
        """(..., H, [F,] nodes): the self-loops that were added; 0 where the caller had a loop edge."""
        return self._unflat(self.weight.detach()[self.slab][..., self.graph.count :][..., : self.n])

    def ran(self) -> Tensor:
        """(..., H, [F,] E'): in the order in which the edges ran, loops included."""
        return self._unflat(self.weight.detach()[self.slab][..., self.graph.edge])

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        weight = self.weight.detach()[self.slab]
        return self._dense(weight, rows, cols)

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        ones = torch.ones((self.slab.stop - self.slab.start, self.graph.size), device=self.weight.device)
        return self._dense(ones, rows, cols).long()

    def _dense(self, weight: Tensor, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        line = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        source, edge = self.graph.neighbours.padded(line.to(self.weight.device))
        found = weight[..., edge.clamp_min(0)].masked_fill(edge < 0, 0.0)
        dense = found.new_zeros((*found.shape[:-1], self.m))
        return dense.scatter_add_(-1, source.expand(found.shape), found)[..., cols]

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "EdgeMap":
        return EdgeMap(lead, self.weight, self.graph, slab)

    def entropy(self) -> Tensor:
        """-sum w log w of each row in nats over its edges, (..., H, [F,] n); signed weights count by their size."""
        w = self.weight.detach()[self.slab][..., self.graph.edge].abs()
        return self._unflat(self._rows(-torch.xlogy(w, w), self.graph.target, self.n))

    def mass(self) -> Tensor:
        """What each source receives, (..., H, [F,] m)."""
        w = self.weight.detach()[self.slab][..., self.graph.edge]
        return self._unflat(self._rows(w, self.graph.source, self.m))

    def strongest(self, k: int = 1) -> Strongest:
        """The k largest weights of each row, their sources and the caller's edges (E + node for an added loop)."""
        k = _count(k)
        flat = self.weight.detach()[self.slab]
        weight = flat.new_zeros((*flat.shape[:-1], self.n, k))
        source, edge = (torch.full(weight.shape, -1, device=weight.device) for _ in range(2))
        graph = self.graph.neighbours
        for rows in graph.blocks(1 << 20):
            sources, ids = graph.padded(rows)
            found = flat[..., ids.clamp_min(0)].masked_fill(ids < 0, -torch.inf)
            best = found.topk(min(k, found.shape[-1]), -1)
            there, place = best.values > -torch.inf, (..., rows, slice(0, best.values.shape[-1]))
            weight[place] = best.values.masked_fill(~there, 0.0)
            source[place] = sources.expand(found.shape).gather(-1, best.indices).where(there, -1)
            edge[place] = ids.expand(found.shape).gather(-1, best.indices).where(there, -1)
        return Strongest(self._unflat(weight), self._unflat(source), self._unflat(edge))

    def _rows(self, x: Tensor, index: Tensor, size: int) -> Tensor:
        return x.new_zeros((*x.shape[:-1], size)).index_add_(-1, index, x)

    def copied(self, keep: Callable[[Tensor], Tensor]) -> "EdgeMap":
        """The same with tensors of its own."""
        return EdgeMap(self.lead, keep(self.weight), self.graph.snapshot(keep), self.slab)


@dataclass(eq=False)
class CapturedEdgeCall:
    """Attention over edges: weights (H, [F,] E') in the order in which the edges ran, before dropout.

    `give` takes other weights of that shape and returns what the layer goes on with; gradients lead through it.
    root is the layer's own tensor of weights, and canonical(root) the same as `weights`.
    """

    weights: Tensor
    graph: CapturedEdges
    give: Callable[[Tensor], Any]
    kernel: str = "edges"
    root: Tensor | None = None
    canonical: Callable[[Tensor], Tensor] | None = None
    lead: "tuple[int, ...] | None" = None  # (H,) unless there is a batch before
    own: Callable[[], Any] | None = None  # while the layer runs: what it goes on with unless told
    group: Tensor | None = None  # (E',) which weights sum to one together, where it is not all of a target's

    @property
    def rows(self) -> tuple[Tensor, int]:
        """(E',) which weights sum to one together, and how many such groups there are."""
        if self.group is None:
            return self.graph.target, self.graph.n
        return self.group, int(self.group.max()) + 1 if self.group.numel() else 0

    @property
    def heads(self) -> int:
        return self.weights.shape[0]

    @property
    def device(self) -> torch.device:
        return self.graph.source.device

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What it was computed from, or the weights themselves."""
        return (self.weights,)

    def map(self) -> AttentionMap:
        return EdgeMap.of(self.weights, self.graph)

    def of(self, weights: Tensor) -> EdgeMap:
        """The map of other weights (H, [F,] E') on the same edges."""
        return EdgeMap.of(weights, self.graph, self.lead)

    def snapshot(self, keep: Callable[[Tensor], Tensor], keys: Tensor | None = None) -> "CapturedEdgeCall":
        with torch.no_grad():
            return CapturedEdgeCall(keep(self.weights), self.graph.snapshot(keep), _gone, self.kernel)

    def gradient(self, out: Any, keep: Callable[[Tensor], Tensor], failed: OnError) -> "EdgeGradient | None":
        """After a backward pass: the gradient of a loss by each weight."""
        root, canonical = self.root, self.canonical
        if root is None or canonical is None or not root.requires_grad:
            return None
        made = EdgeGradient(tuple(self.weights.shape), self.graph.snapshot(keep))
        on_gradient(root, lambda grad: made.add(keep(canonical(grad))), failed)
        return made


class EdgeGradient(EdgeMap):
    """The gradient of a loss by each weight of a graph's attention: there after a backward pass."""

    def __init__(self, shape: tuple[int, ...], graph: CapturedEdges, lead: "tuple[int, ...] | None" = None):
        super().__init__((shape[0],) if lead is None else lead, torch.zeros((*shape[:-1], graph.size)), graph)
        self.filled = False

    def add(self, grad: Tensor) -> None:
        """Gradients of several backward passes add up."""
        found = EdgeMap.of(grad.detach(), self.graph).weight
        self.weight, self.filled = (self.weight + found if self.filled else found), True

    def edges(self, grad: bool = False) -> Tensor:
        if not self.filled:
            raise RuntimeError("There is no gradient yet: call backward() on a loss after the forward pass.")
        return super().edges()


def _gone(weights: Tensor) -> Any:
    raise RuntimeError("This call was recorded and has run: its weights can no longer be replaced.")
