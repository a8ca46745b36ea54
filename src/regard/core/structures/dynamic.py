"""Structures computed by an alignment: windows around predicted centres, keys sampled by a policy."""

from dataclasses import dataclass

from torch import Tensor

from ..lowering.kernel_forms import KEY_MASK, PREDICTED_WINDOW, StructureForm
from ..lowering.tiles import Tile
from .structure import Structure


@dataclass(frozen=True, eq=False)
class PredictedWindow(Structure):
    """A window around a centre predicted for each query: |j - floor(centre_i)| <= reach. centre (g, n), from
    `LocalPredictive`."""

    formerly = ("Around",)

    centre: Tensor
    reach: int
    heads: int

    def kernel_form(self, n: int, m: int) -> StructureForm:
        return StructureForm(PREDICTED_WINDOW, centre=self.centre, reach=self.reach)

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
class DrawnKeys(Structure):
    """Keys sampled by a policy: selected (batch * heads, m) bool, from `Reinforced`."""

    formerly = ("Chosen",)

    selected: Tensor
    heads: int

    def kernel_form(self, n: int, m: int) -> StructureForm:
        return StructureForm(KEY_MASK, keep=self.selected.view(self.selected.shape[0] // self.heads, self.heads, m))

    def allowed(self, tile: Tile) -> Tensor | None:
        return self.selected[tile.batch * self.heads + tile.head, tile.key]
