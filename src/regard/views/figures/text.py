"""Text with tokens shaded by weight."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.core.maps.attention_map import AttentionMap

from ..axes import LUMINANCE, bar_for, colours_for, given_names, letters, one_row, own_axes
from .figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 1.75  # line height over font size


@figure("text")
def text_map(
    weights: Any,
    keys: Sequence[str] | None = None,
    *,
    row: int | None = None,
    ax: "Axes | None" = None,
    colours: str | None = None,
    size: float = 11.0,
) -> "Axes":
    """Running text with tokens shaded by weight; lines wrap at the width of the axes.

    weights   (m,), or an AttentionMap of one head with row=
    keys      m names; by default the map's labels, else positions
    row       of a map: the query; by default the mean weight that each key receives
    size      font size in points
    """
    from matplotlib.cm import ScalarMappable

    label, title = "weight", ""
    if isinstance(weights, AttentionMap):
        amap, names = weights, given_names(weights, None, keys, weights.n, weights.m, "text_map")
        if row is None:
            w = (amap.mass() / max(1, amap.n)).reshape(-1, amap.m).double().cpu().numpy()
            if len(w) != 1:
                raise ValueError(
                    f"text_map() draws one head: the map has shape {amap.shape}. Choose one: amap[batch, head]."
                )
            w, label = w[0], "weight received, mean of rows"
        else:
            w, title = one_row(amap, row, "text_map"), f"{names[0][row]} (row {row % amap.n}) attends to"
        keys = names[1]
    else:
        w = np.asarray(weights.detach().cpu() if hasattr(weights, "detach") else weights, dtype=np.float64)
        if w.ndim != 1:
            raise ValueError(f"text_map() draws one row: expected weights (m,), given {w.shape}. Of a map: row=.")
        keys = given_names(None, None, keys, 0, len(w), "text_map")[1]
    own = ax is None
    if ax is None:
        ax = own_axes(7.0, 2.0)
    figure: Any = ax.figure
    paint = ScalarMappable(**colours_for(w, colours))
    ax.set_axis_off()
    bar_for(paint, ax, label)
    figure.draw_without_rendering()  # fixes the width of the axes, which a layout may still change
    width = ax.get_window_extent().width * 72 / figure.dpi
    how, x, y = letters(keys), 0.0, size * LINE if title else 0.0
    if title:
        ax.annotate(
            title,
            (0, 1),
            (0, 0),
            "axes fraction",
            textcoords="offset points",
            va="top",
            fontsize=size,
            **letters([title]),
        )
    for name, weight in zip(keys, w, strict=True):
        ground = paint.to_rgba(np.array(weight))[:3]
        made = ax.annotate(
            name,
            (0, 1),
            (x, -y),
            "axes fraction",
            textcoords="offset points",
            va="top",
            fontsize=size,
            color="white" if np.dot(ground, LUMINANCE) < 0.45 else "black",
            annotation_clip=False,
            bbox={"facecolor": ground, "edgecolor": "none", "boxstyle": "round,pad=0.12"},
            **how,
        )
        wide = made.get_window_extent().width * 72 / figure.dpi
        if x and x + wide > width:
            x, y = 0.0, y + size * LINE
            made.set_position((x, -y))
        x += wide + 0.5 * size
    if own:
        figure.set_size_inches(7.0, max(1.2, (y + 2 * size * LINE) / 72))
    return ax
