"""Heat map of one head: queries on Y from top to bottom, keys on X."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.core.maps.attention_map import AttentionMap

from ..axes import LUMINANCE, bar_for, colours_for, given_names, letters, own_axes, two_dimensional
from ..payload.thumbnails import MAX_DENSE, pool_heads
from .figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY_CELLS = 12  # above so many cells a side, numbers are unreadable
FINEST = 1024  # maximum cells a side of a large map


@figure("heat")
def heat_map(
    weights: Any,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    ax: "Axes | None" = None,
    colours: str | None = None,
    root: bool | None = None,
    numbers: bool | None = None,
) -> "Axes":
    """Weights (n, m) as colours: queries on Y, keys on X, both axes named, the scale from 0 to the largest weight.

    weights   an AttentionMap of one head (`amap[b, h]`) or an (n, m) array
    queries   n names for the rows, keys m names for the columns; by default the map's labels, else positions
    colours   a matplotlib colour map; by default YlOrBr, and diverging PuOr for signed weights
    root      square-root colour scale, which shows small weights; by default for large maps
    numbers   print weights into cells; by default up to 12 a side

    A map of more than a million weights is drawn from its pyramid: a cell shows its largest weight.
    """
    label, tall, wide = "weight", 1, 1
    if isinstance(weights, AttentionMap) and weights.n * weights.m > MAX_DENSE and weights.heads == 1:
        n, m = weights.n, weights.m
        found = pool_heads(weights, FINEST, FINEST)
        grid, label, tall, wide = found.peak[0].astype(np.float64), found.legend, found.tall, found.wide
    else:
        grid = two_dimensional(weights)
        n, m = grid.shape
    queries, keys = given_names(weights, queries, keys, n, m, broken=True)
    if ax is None:
        ax = own_axes(*heat_size(n, m))
    style = colours_for(grid, colours, tall * wide > 1 if root is None else root)
    image = ax.imshow(
        grid,
        **style,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, wide * grid.shape[1] - 0.5, tall * grid.shape[0] - 0.5, -0.5),
    )
    ax.set(xlim=(-0.5, m - 0.5), ylim=(n - 0.5, -0.5))
    if max(n, m) <= 4 * MANY_CELLS:
        slanted = max(map(len, keys), default=0) > 4
        turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
        ax.set_xticks(range(m), keys, **turn, **letters(keys))
        ax.set_yticks(range(n), queries, **letters(queries))
    ax.set_xlabel("key (attended)")
    ax.set_ylabel("query (attending)")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if numbers or (numbers is None and max(n, m) <= MANY_CELLS):
        for (i, j), weight in np.ndenumerate(grid):
            dark = np.dot(image.cmap(image.norm(weight))[:3], LUMINANCE) < 0.45
            ax.text(j, i, f"{weight:.4f}", ha="center", va="center", color="white" if dark else "black")
    bar_for(image, ax, label)
    return ax


def heat_size(n: int, m: int) -> tuple[float, float]:
    """Width and height in inches."""
    return 1.6 + 0.72 * min(m, MANY_CELLS), 1.2 + 0.62 * min(n, MANY_CELLS)
