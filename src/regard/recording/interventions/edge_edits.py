"""What becomes of attention over the edges of a graph: the same operations, on weights (g, [F,] E')."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard.core.lowering.tiles import Tile
from regard.core.maps.attention_map import AttentionMap
from regard.core.structures import Full, Structure

from ..capture.edges.edge_maps import CapturedEdgeCall, EdgeMap
from .edits import Copy, EditedCall, PartialEdit, joined
from .weight_ops import marked, share


@dataclass(frozen=True, eq=False)
class OnEdges(EditedCall):
    """Weights on edges in the order in which they ran; a target's edges are its row."""

    call: CapturedEdgeCall
    put: Tensor | None = None
    over: Structure = field(default_factory=Full)
    silent: Tensor | None = None  # (batch or 1, m)
    axes = "(heads, edges)"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.call.weights.shape)

    @property
    def expected(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.call.graph.count)

    @property
    def heads(self) -> int:
        return self.call.heads

    @property
    def batch(self) -> int:
        return self.shape[0] // self.heads

    @property
    def sizes(self) -> tuple[int, int]:
        return self.call.graph.n, self.call.graph.m

    @property
    def device(self) -> torch.device:
        return self.call.graph.source.device

    def weights(self) -> Tensor:
        return self.call.weights if self.put is None else self.put

    def tile(self) -> Tile:
        graph, flat = self.call.graph, torch.arange(self.shape[0], device=self.device)[:, None, None]
        return Tile(
            flat // self.heads,
            flat % self.heads,
            graph.target[None, None],
            graph.source[None, None],
            graph.n,
            graph.m,
            None,
            graph.edge[None, None],
        )

    def keep(self, over: Structure) -> Tensor:
        """(g or 1, [1,] E'): which edges a structure leaves open."""
        found = over.fit((self.batch,), self.heads, *self.sizes).allowed(self.tile())
        if found is None:
            found = torch.ones((1, 1, self.shape[-1]), dtype=torch.bool, device=self.device)
        return found if len(self.shape) == 3 else found.squeeze(-2)

    def allowed(self) -> Tensor | None:
        return self.keep(self.over)

    def total(self, x: Tensor) -> Tensor:
        """The sum over the edges that share one whole, back on the edges."""
        row, count = self.call.rows
        made = x.new_zeros((*x.shape[:-1], count)).index_add(-1, row, x)
        return made[..., row]

    def uniform(self) -> EditedCall:
        keep = self.keep(self.over).to(self.weights().dtype)
        return self.given((keep / self.total(keep).clamp_min(1.0)).expand(self.shape))

    def permuted(self, seed: int) -> EditedCall:
        draw = self.tile().uniform(torch.tensor(seed, device=self.device)).squeeze(-2)  # (g, E')
        shut = ~self.keep(self.over)
        row = self.call.graph.target * 2 + (shut.squeeze(1) if shut.ndim == 3 else shut)
        row = row.expand(draw.shape)
        place = row.sort(dim=-1, stable=True).indices  # by target, closed edges last
        drawn = draw.sort(dim=-1, stable=True).indices
        drawn = drawn.gather(
            -1, row.gather(-1, drawn).sort(dim=-1, stable=True).indices
        )  # within each in a drawn order
        weights = self.weights()
        if weights.ndim == 3:
            place, drawn = (x[:, None].expand(weights.shape) for x in (place, drawn))
        return self.given(torch.zeros_like(weights).scatter(-1, place, weights.gather(-1, drawn)))

    def without(self, open_pairs: Structure, renormalise: bool = True) -> EditedCall:
        weights, keep = self.weights(), self.keep(open_pairs)
        left = weights.masked_fill(~keep, 0.0)
        if not renormalise:
            return self.given(left)
        left = left * share(self.total(weights), self.total(left))
        return replace(self, put=left, over=self.over & open_pairs)

    def silenced(self, keys: Tensor) -> EditedCall:
        return replace(self, silent=joined(self.silent, keys))

    def given(self, weights: Tensor) -> EditedCall:
        return replace(self, put=weights)

    def broadcast(self, weights: Tensor) -> Tensor:
        """Weights on the caller's edges (..., E), or with the loops (..., E + nodes), as they run."""
        graph, weights = self.call.graph, weights.to(self.device)
        if weights.ndim == 0 or weights.shape[-1] not in (graph.count, graph.size):
            raise RuntimeError(f"{graph.count} edges")
        whole = self.call.of(self.weights()).weight
        weights = weights.expand(*whole.shape[:-1], weights.shape[-1])
        return torch.cat([weights, whole[..., weights.shape[-1] :]], -1)[..., graph.edge]

    def fits(self, amap: AttentionMap) -> bool:
        if not isinstance(amap, EdgeMap) and getattr(amap, "graph", None) is None:
            return False
        size = amap.slab.stop - amap.slab.start
        return size == self.shape[0] and amap.edges().shape[-1] == self.call.graph.count

    def frozen(self, amap: AttentionMap) -> EditedCall:
        edges, loops = (x.reshape(*self.shape[:-1], x.shape[-1]) for x in (amap.edges(), amap.loops))
        whole = torch.cat([edges, loops], -1).to(self.device, self.weights().dtype)
        return self.given(whole[..., self.call.graph.edge])

    def nothing(self) -> EditedCall:
        return self.given(torch.zeros_like(self.weights()))

    def selected(self, heads: "list[int] | None", rows: "list[int] | None") -> Tensor:
        """(g, [1,] E')"""
        flat = torch.arange(self.shape[0], device=self.device)
        chosen = torch.ones((self.shape[0], self.shape[-1]), dtype=torch.bool, device=self.device)
        if heads is not None:
            chosen = chosen & marked(heads, self.heads, self.device)[flat % self.heads][:, None]
        if rows is not None:
            chosen = chosen & marked(rows, self.sizes[0], self.device)[self.call.graph.target]
        return chosen if len(self.shape) == 2 else chosen[:, None]

    def mixed(self, after: EditedCall, where: Tensor) -> EditedCall:
        return MixedEdges(self, after, where)

    def out(self) -> Tensor:
        weights = self.weights()
        if self.silent is None:
            return weights
        flat = torch.arange(self.shape[0], device=self.device) // self.heads
        silent = self.silent[flat if self.silent.shape[0] > 1 else torch.zeros_like(flat)][:, self.call.graph.source]
        return weights.masked_fill(silent if weights.ndim == 2 else silent[:, None], 0.0)

    def map(self) -> AttentionMap:
        return self.call.of(self.weights())

    def snapshot(self, copy: Copy) -> AttentionMap:
        return self.call.of(self.weights().detach()).copied(copy)


@dataclass(frozen=True, eq=False)
class MixedEdges(PartialEdit):
    """`after` where (g, [1,] E') says so, else `before`."""

    axes = OnEdges.axes

    @property
    def base(self) -> OnEdges:
        found = self.before
        while isinstance(found, MixedEdges):
            found = found.before
        assert isinstance(found, OnEdges)
        return found

    @property
    def expected(self) -> tuple[int, ...]:
        return self.base.expected

    @property
    def heads(self) -> int:
        return self.base.heads

    @property
    def batch(self) -> int:
        return self.base.batch

    @property
    def sizes(self) -> tuple[int, int]:
        return self.base.sizes

    def permuted(self, seed: int) -> EditedCall:
        return self.both(lambda side: side.permuted(seed))

    def broadcast(self, weights: Tensor) -> Tensor:
        return self.base.given(self.weights()).broadcast(weights)

    def selected(self, heads: "list[int] | None", rows: "list[int] | None") -> Tensor:
        return self.base.selected(heads, rows)

    def mixed(self, after: EditedCall, where: Tensor) -> EditedCall:
        return MixedEdges(self, after, where)

    def map(self) -> AttentionMap:
        return self.base.call.of(self.weights())

    def snapshot(self, copy: Copy) -> AttentionMap:
        return self.base.call.of(self.weights().detach()).copied(copy)
