"""Positional structures: causal masks and sliding windows."""

from collections.abc import Hashable
from dataclasses import dataclass

from torch import Tensor

from ..arguments import MOST, is_whole, shown, whole
from ..lowering.kernel_forms import CAUSAL, WINDOW, StructureForm
from ..lowering.tiles import Tile
from .structure import STRUCTURE_NAMES, And, Structure


def shift_of(align: str | None, n: int, m: int, who: str) -> int:
    """Offset of query positions: query i is at key position i + shift."""
    if align == "end":
        return m - n
    if align is None and n != m:
        raise ValueError(
            f"{who}() needs align= when queries and keys differ in number (n={n}, m={m}):\n"
            f'{who}(align="end") puts the last query at the last key (decoding with a cache);\n'
            f'{who}(align="start") puts query i at key i.'
        )
    return 0


def check_align(align: str | None, who: str) -> None:
    if not (align is None or (isinstance(align, str) and align in ("start", "end"))):
        raise ValueError(f'{who}(align={shown(align)}): expected "start", "end" or None.')


@dataclass(frozen=True, eq=False)
class Causal(Structure):
    """Causal attention: no query attends later keys.

        j <= i + shift,   shift = 0 (align="start") or m - n (align="end")

    With a window, each query sees the last `window` of these keys, its own among them: the sliding window of Mistral,
    Causal() & Window(window - 1, 0).

    Also known as: causal mask, autoregressive mask, look-ahead mask.
    Vaswani et al. 2017.
    """

    align: str | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        check_align(self.align, "Causal")
        if self.window is not None:
            whole(self.window, "Causal", "window")

    def plan_key(self) -> Hashable | None:
        return Causal, self.align, self.window

    def kernel_form(self, n: int, m: int) -> StructureForm | None:
        if self.window is not None:  # its parts have forms
            return None
        return StructureForm(CAUSAL, right=shift_of(self.align, n, m, "Causal"))

    def parts(self) -> tuple[Structure, ...]:
        if self.window is None:
            return (self,)
        return Causal(self.align), Window(self.window - 1, 0, align=self.align)

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        shift_of(self.align, n, m, "Causal")
        return self if self.window is None else And(self.parts())

    def allowed(self, tile: Tile) -> Tensor | None:
        if self.window is not None:
            return And(self.parts()).allowed(tile)
        return tile.key <= tile.query + shift_of(self.align, tile.n, tile.m, "Causal")

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        if self.window is not None:
            return And(self.parts()).span(heads, slab, rows, n, m)
        return 0, max(0, min(m, rows.stop + shift_of(self.align, n, m, "Causal")))


@dataclass(frozen=True, eq=False)
class Window(Structure):
    """A local window, optionally dilated.

        -left * dilation <= j - i <= right * dilation

    Also known as: sliding window attention, SWA, banded attention.
    With grid=(height, width) the positions are pixels of an image in row-major order and the window holds on both
    axes: a (left + 1 + right) x (left + 1 + right) neighbourhood, clipped at the border. Beltagy et al. 2020.
    Window(8) is Window(8, 8). A side may be negative if the other is at least as large: Window(n, -1) is strictly
    causal, without the diagonal.
    """

    left: int
    right: int = None  # type: ignore[assignment] # as far as left
    dilation: int = 1
    grid: tuple[int, int] | None = None
    align: str | None = None

    def __post_init__(self) -> None:
        check_align(self.align, "Window")
        if self.right is None:
            object.__setattr__(self, "right", self.left)
        if self.grid is not None:
            if not isinstance(self.grid, (tuple, list)) or len(self.grid) != 2:
                raise ValueError(f"Window(grid={shown(self.grid)}): expected (height, width) in pixels, or None.")
            for size in self.grid:
                whole(size, "Window", "grid", 0)
        counted = all(is_whole(x) and abs(x) <= MOST for x in (self.left, self.right, self.dilation))
        apart = counted and min(self.left, self.right) < 0 and self.grid is not None
        if not counted or self.left + self.right < 0 or apart or self.dilation < 1:
            given = ", ".join(f"{name}={shown(getattr(self, name))}" for name in ("left", "right", "dilation"))
            raise ValueError(
                f"Window({given}): left and right "
                "count neighbours (whole numbers; one may be negative where the other is as large, but "
                "not on a grid) and dilation is 1 or more."
            )

    def plan_key(self) -> Hashable | None:
        grid = None if self.grid is None else tuple(self.grid)
        return Window, self.left, self.right, self.dilation, grid, self.align

    def kernel_form(self, n: int, m: int) -> StructureForm | None:
        if self.grid is not None or self.dilation > 1:
            return None
        shift = shift_of(self.align, n, m, "Window")
        return StructureForm(WINDOW, left=self.left - shift, right=self.right + shift)

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        if self.grid is not None:
            if n != self.grid[0] * self.grid[1] or m != n:
                raise ValueError(
                    f"Window(grid={self.grid}) has {self.grid[0] * self.grid[1]} pixels, but there are "
                    f"n={n} queries and m={m} keys: both must equal height x width."
                )
        else:
            shift_of(self.align, n, m, "Window")
        return self

    def _near(self, distance: Tensor) -> Tensor:
        near = (distance >= -self.left * self.dilation) & (distance <= self.right * self.dilation)
        return near & (distance % self.dilation == 0) if self.dilation > 1 else near

    def allowed(self, tile: Tile) -> Tensor | None:
        if self.grid is None:
            return self._near(tile.key - tile.query - shift_of(self.align, tile.n, tile.m, "Window"))
        width = self.grid[1]
        return self._near(tile.key // width - tile.query // width) & self._near(tile.key % width - tile.query % width)

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        back, ahead = self.left * self.dilation, self.right * self.dilation
        if self.grid is not None:
            width = self.grid[1]
            start, stop = (rows.start // width - back) * width, ((rows.stop - 1) // width + ahead + 1) * width
        else:
            shift = shift_of(self.align, n, m, "Window")
            start, stop = rows.start + shift - back, rows.stop + shift + ahead
        start = min(m, max(0, start))
        return start, max(start, min(m, stop))


STRUCTURE_NAMES["causal"] = Causal()
