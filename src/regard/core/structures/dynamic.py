"""Structures that an alignment makes: windows about a predicted centre, pairs that were drawn."""

from dataclasses import dataclass

from torch import Tensor

from ..lowering.tiles import Tile
from .structure import Structure


@dataclass(frozen=True, eq=False)
class Around(Structure):
    """A window about a centre that each query chose: |j - floor(centre_i)| <= reach. centre (g, n), from `Local`."""

    centre: Tensor
    reach: int
    heads: int

    def allowed(self, tile: Tile) -> Tensor | None:
        centre = self.centre[tile.batch * self.heads + tile.head, tile.query]
        return (tile.key - centre.floor()).abs() <= self.reach

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        if self.centre.device.type != "cpu":
            return 0, m
        centre = self.centre[slab, rows].floor()
        start, stop = int(centre.min()) - self.reach, int(centre.max()) + self.reach + 1
        return min(m, max(0, start)), max(0, min(m, stop))


@dataclass(frozen=True, eq=False)
class Chosen(Structure):
    """Keys drawn by a policy: selected (batch * heads, m) bool, from `Reinforced`."""

    selected: Tensor
    heads: int

    def allowed(self, tile: Tile) -> Tensor | None:
        return self.selected[tile.batch * self.heads + tile.head, tile.key]
