"""Structures on image grids: queries and keys are pixels in row-major order."""

from collections.abc import Hashable
from dataclasses import dataclass

from torch import Tensor

from ..arguments import shown, whole
from ..lowering.tiles import Tile
from .structure import Structure

AXES = ("row", "column")


@dataclass(frozen=True, eq=False)
class _OnGrid(Structure):
    """Pixels of a grid (height, width) in row-major order; subclasses define which rows and columns may attend."""

    grid: tuple[int, int]

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.grid, (tuple, list)) or len(self.grid) != 2:
            raise ValueError(f"{name}(grid={shown(self.grid)}): expected (height, width) in pixels.")
        for size in self.grid:
            whole(size, name, "grid", 0)

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        if n != self.grid[0] * self.grid[1] or m != n:
            raise ValueError(
                f"{type(self).__name__}(grid={tuple(self.grid)}) has {self.grid[0] * self.grid[1]} pixels, but there "
                f"are n={n} queries and m={m} keys: both must equal height x width."
            )
        return self

    def allowed(self, tile: Tile) -> Tensor | None:
        width = self.grid[1]
        rows = self._meet(tile.query // width, tile.key // width, 0)
        columns = self._meet(tile.query % width, tile.key % width, 1)
        return columns if rows is None else rows if columns is None else rows & columns

    def _meet(self, query: Tensor, key: Tensor, axis: int) -> Tensor | None:
        """Which coordinates of an axis (0 rows, 1 columns) may attend; None for all."""
        raise TypeError(f"{type(self).__name__} must define _meet.")

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        width = self.grid[1]
        if rows.stop <= rows.start or width == 0:
            return 0, m
        first, last = self._reach(rows.start // width, (rows.stop - 1) // width)
        return max(0, first * width), min(m, (last + 1) * width)

    def _reach(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last image row that rows first..last may attend."""
        return 0, self.grid[0] - 1


@dataclass(frozen=True, eq=False)
class ShiftedWindows(_OnGrid):
    """Square windows, shifted from layer to layer, so that neighbours across a border attend in the next.

        (i, j) of one square: floor((y - shift) / size) and floor((x - shift) / size) are equal

    Also known as: Swin, shifted window attention, window partition.
    Liu et al. 2021, whose cyclic roll puts pixels of opposite borders into one window and masks them: the same
    pairs. Squares at the border are smaller. ShiftedWindows((8, 8), 4) and ShiftedWindows((8, 8), 4, 2) alternate.
    """

    size: int
    shift: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.size, "ShiftedWindows", "size")
        whole(self.shift, "ShiftedWindows", "shift", 0)
        if self.shift >= self.size:
            raise ValueError(
                f"ShiftedWindows(size={self.size}, shift={self.shift}): expected a shift below the size, half of it in "
                "the paper."
            )

    def plan_key(self) -> Hashable | None:
        return ShiftedWindows, tuple(self.grid), self.size, self.shift

    def _meet(self, query: Tensor, key: Tensor, axis: int) -> Tensor | None:
        return self._window(query) == self._window(key)

    def _window(self, place: Tensor) -> Tensor:
        return (place + (self.size - self.shift)) // self.size

    def _reach(self, first: int, last: int) -> tuple[int, int]:
        down = self.size - self.shift
        return (first + down) // self.size * self.size - down, ((last + down) // self.size + 1) * self.size - down - 1


@dataclass(frozen=True, eq=False)
class Neighbourhood(_OnGrid):
    """A square of nearest pixels around each, shifted inwards at the border, so that every row has equally many keys.

        start(y) = clip(y - floor(size / 2), 0, height - size),   start(y_i) <= y_j < start(y_i) + size, likewise x

    Also known as: NATTEN, neighborhood attention.
    Hassani et al. 2023. Window(..., grid=...) cuts the square at the border instead. Every row has size^2 keys.
    """

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.size, "Neighbourhood", "size")
        if min(self.grid) and self.size > min(self.grid):
            raise ValueError(
                f"Neighbourhood(grid={tuple(self.grid)}, size={self.size}): the square is larger than the image."
            )

    def plan_key(self) -> Hashable | None:
        return Neighbourhood, tuple(self.grid), self.size

    def _meet(self, query: Tensor, key: Tensor, axis: int) -> Tensor | None:
        start = (query - self.size // 2).clamp(0, max(0, self.grid[axis] - self.size))
        return (key >= start) & (key < start + self.size)

    def _reach(self, first: int, last: int) -> tuple[int, int]:
        most = max(0, self.grid[0] - self.size)
        start, stop = (min(max(0, place - self.size // 2), most) for place in (first, last))
        return start, stop + self.size - 1


@dataclass(frozen=True, eq=False)
class Axial(_OnGrid):
    """Pixels of the same row, or of the same column; two such layers connect every pair of pixels.

        axis="row"      y_i = y_j
        axis="column"   x_i = x_j

    Also known as: row attention, column attention, criss-cross attention.
    Ho et al. 2019; Wang et al. 2020. Two layers cost height + width pairs a pixel, instead of height x width.
    """

    axis: str = "row"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.axis not in AXES:
            raise ValueError(f'Axial(axis={shown(self.axis)}): expected "row" or "column".')

    def plan_key(self) -> Hashable | None:
        return Axial, tuple(self.grid), self.axis

    def _meet(self, query: Tensor, key: Tensor, axis: int) -> Tensor | None:
        return query == key if AXES[axis] == self.axis else None

    def _reach(self, first: int, last: int) -> tuple[int, int]:
        return (first, last) if self.axis == "row" else (0, self.grid[0] - 1)
