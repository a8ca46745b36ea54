"""`plot`: every kind of figure of a map or a record; saving figures; static fallbacks of pages."""

import inspect
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.arguments.synonyms import near, unknown_argument
from ..core.maps.attention_map import AttentionMap
from .figures import FIGURES, head_grid, heat_map
from .figures.heads import grid_size
from .figures.heat import heat_size
from .page import maps_of, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS_ALSO = {"heatmap": "heat", "matrix": "heat", "grid": "heads", "thumbnails": "heads", "line": "lines"}
ARGUMENTS_ALSO = {"cmap": "colours", "colors": "colours", "colormap": "colours", "annot": "numbers", "axes": "ax"}
FORMATS = ("pdf", "png", "svg")
# Text stays text: <text> in SVG, TrueType in PDF, so that it can be searched and copied.
PAPER: Any = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "regard"}


def plot(what: Any, kind: str | None = None, *, save: "str | os.PathLike[str] | None" = None, **how: Any) -> "Axes":
    """One figure of a map or record; see `AttentionMap.plot`."""
    if kind is None:
        kind = "heat" if _one(what) else "heads"
    kind = KINDS_ALSO.get(kind, kind)
    if kind not in FIGURES:
        hint = near(kind, [*FIGURES, *KINDS_ALSO])
        hint = f"{hint} Expected" if hint else "expected"
        raise ValueError(f"plot({kind!r}): {hint} one of {', '.join(map(repr, FIGURES))}.")
    if not FIGURES[kind].records and not isinstance(what, AttentionMap):
        raise ValueError(
            f"plot({kind!r}) draws one head, this is a {type(what).__name__}: choose a site and a head, "
            "rec.maps[site][0, 3].plot(...)."
        )
    if save is not None:
        _format(save)  # fail before drawing
    title = how.pop("title", None)
    axes = FIGURES[kind].draw(what, **_own_arguments(kind, how))
    if title is not None:
        axes.set_title(title)
    if save is not None:
        save_figure(axes.figure, save)
    return axes


def _own_arguments(kind: str, how: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names that matplotlib and others have for them: cmap is colours, labels are queries and keys."""
    parameters = list(inspect.signature(FIGURES[kind].draw).parameters.values())[1:]
    takes = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    takes_more = len(takes) < len(parameters)  # and hands it on to another figure
    made = {ARGUMENTS_ALSO.get(name, name): value for name, value in how.items() if name != "labels"}
    if len(made) + ("labels" in how) < len(how):
        raise TypeError(f"plot({kind!r}, {', '.join(f'{x}=' for x in how)}): two of these are one argument.")
    if how.get("labels") is not None and {"queries", "keys"} <= set(takes):
        labels = how["labels"]
        pair = isinstance(labels, tuple) and len(labels) == 2 and not any(isinstance(x, str) for x in labels)
        made["queries"], made["keys"] = labels if pair else (labels, labels)
    elif how.get("labels") is not None:
        raise TypeError(f"plot({kind!r}) has no argument labels: it takes {', '.join(takes)}.")
    for name in made:
        if name not in takes and not takes_more:
            raise unknown_argument(f"plot[{kind}]", name, [*takes, "title", "save"], {})
    return made


def save_figure(figure: Any, path: "str | os.PathLike[str]", dots: int = 300) -> Path:
    """Save as PNG (dots per inch), SVG or PDF, atomically; matplotlib's global settings are restored."""
    import matplotlib

    ending = _format(path)
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]  # reproducible files
    file = io.BytesIO()
    with matplotlib.rc_context(PAPER):
        figure.savefig(file, format=ending, dpi=dots, bbox_inches="tight", metadata=undated)
    return write_file(file.getvalue(), path)


def static_figure(what: Any, item: int = 0) -> "Figure":
    """The static fallback of a page; not registered with pyplot."""
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
    """Whether it is a map of a single head."""
    return isinstance(what, AttentionMap) and all(size == 1 for size in what.lead)


def _format(path: "str | os.PathLike[str]") -> str:
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in FORMATS:
        raise ValueError(f"save={str(path)!r}: expected a name that ends in .{', .'.join(FORMATS)}.")
    return ending
