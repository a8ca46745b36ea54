"""Registry of figures: `@figure(kind)` makes a function available as `plot(kind)`.

    @figure("bars")
    def bar_map(weights, *, ax=None, **how) -> Axes: ...

A new figure is a file of this folder with such a function: `amap.plot("bars")` draws it on ax= or on new axes, and
saves it to save=.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Drawer = TypeVar("Drawer", bound="Callable[..., Axes]")


@dataclass(frozen=True)
class Figure:
    """One kind of figure: the function, and whether it accepts records and maps of several heads."""

    draw: "Callable[..., Axes]"
    records: bool = False


FIGURES: dict[str, Figure] = {}


def figure(kind: str, *, records: bool = False) -> Callable[[Drawer], Drawer]:
    """Register a function (map, *, ax=None, ...) -> axes as a kind of figure: amap.plot(kind, ...).

    records   whether it also accepts a record, or a map of several heads
    """

    def register(draw: Drawer) -> Drawer:
        before = FIGURES.get(kind)
        if before is not None and before.draw.__qualname__ != draw.__qualname__:
            raise ValueError(
                f"figure({kind!r}): this is {before.draw.__qualname__} of {before.draw.__module__}; "
                "choose another name."
            )
        FIGURES[kind] = Figure(draw, records)
        return draw

    return register
