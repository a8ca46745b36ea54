"""A figure says its kind, and `plot(kind)` knows it by that.

    @figure("bars")
    def bar_map(weights, *, ax=None, **how) -> Axes: ...

A file of this folder with such a function in it is all that a new one needs: `amap.plot("bars")` draws it, on axes of
its own or on ax=, and writes it where save= says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Drawer = TypeVar("Drawer", bound="Callable[..., Axes]")


@dataclass(frozen=True)
class Figure:
    """One kind of figure: what draws it, and whether it draws a whole record and not one head alone."""

    draw: "Callable[..., Axes]"
    records: bool = False


FIGURES: dict[str, Figure] = {}


def figure(kind: str, *, records: bool = False) -> Callable[[Drawer], Drawer]:
    """Makes a function (map, *, ax=None, ...) -> axes a kind of figure: amap.plot(kind, ...).

    records   whether it also takes a record, or a map of several heads
    """

    def enlist(draw: Drawer) -> Drawer:
        before = FIGURES.get(kind)
        if before is not None and before.draw.__qualname__ != draw.__qualname__:
            raise ValueError(
                f"figure({kind!r}): this is {before.draw.__qualname__} of {before.draw.__module__}; "
                "choose another name."
            )
        FIGURES[kind] = Figure(draw, records)
        return draw

    return enlist
