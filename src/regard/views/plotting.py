"""`plot`: every kind of figure of a map or a record, on axes that were given or its own, written to a file if asked."""

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.maps.attention_map import AttentionMap
from .figures import FIGURES, head_grid, heat_map
from .figures.heads import grid_size
from .figures.heat import heat_size
from .page import maps_of, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "png", "svg")
# Letters stay letters: text in an SVG, TrueType in a PDF, where a journal and a reader can search and copy them.
PAPER: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "regard"}


def plot(what: Any, kind: str | None = None, *, save: "str | os.PathLike[str] | None" = None, **how: Any) -> "Axes":
    """One figure of a map or record; see `AttentionMap.plot`."""
    if kind is None:
        kind = "heat" if _one(what) else "heads"
    if kind not in FIGURES:
        raise ValueError(f"plot({kind!r}): expected one of {', '.join(map(repr, FIGURES))}.")
    if not FIGURES[kind].records and not isinstance(what, AttentionMap):
        raise ValueError(
            f"plot({kind!r}) draws one head, this is a {type(what).__name__}: choose a site and a head, "
            "rec.maps[site][0, 3].plot(...)."
        )
    if save is not None:
        _format(save)  # before anything is drawn
    axes = FIGURES[kind].draw(what, **how)
    if save is not None:
        save_figure(axes.figure, save)
    return axes


def save_figure(figure: Any, path: "str | os.PathLike[str]", dots: int = 300) -> Path:
    """PNG at so many dots an inch, SVG or PDF, whole or not at all; matplotlib's own settings stay as they are."""
    import matplotlib

    ending = _format(path)
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[
        ending
    ]  # the same figure, the same file
    file = io.BytesIO()
    with matplotlib.rc_context(PAPER):
        figure.savefig(file, format=ending, dpi=dots, bbox_inches="tight", metadata=undated)
    return write_file(file.getvalue(), path)


def static_figure(what: Any, item: int = 0) -> "Figure":
    """The figure that stands for a page where none can be shown; pyplot does not hear of it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    maps = list(maps_of(what, item).values())
    one = _one(what)
    size = heat_size(maps[0].n, maps[0].m) if one else grid_size(len(maps), max(amap.heads for amap in maps))
    figure = Figure(size, layout="constrained")
    FigureCanvasAgg(figure)
    if one:
        heat_map(maps[0], ax=figure.add_subplot())
    else:
        head_grid(what, ax=figure.add_subplot(), item=item)
    return figure


def _one(what: Any) -> bool:
    """Whether there is one head to draw, and no more."""
    return isinstance(what, AttentionMap) and all(size == 1 for size in what.lead)


def _format(path: "str | os.PathLike[str]") -> str:
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in FORMATS:
        raise ValueError(f"save={str(path)!r}: expected a name that ends in .{', .'.join(FORMATS)}.")
    return ending
