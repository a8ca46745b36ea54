"""A grid of thumbnails: a row for each site, a column for each head."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..axes import bar_for, colours_for, letters, own_axes
from ..page import maps_of
from ..payload.site_payload import join_steps, short_name, single_map
from ..payload.thumbnails import pool_heads
from .figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = 32  # along the side of a head
GAP = 0.08  # between heads, where a head is 1


@figure("heads", records=True)
def head_grid(what: Any, *, ax: "Axes | None" = None, item: int = 0, colours: str | None = None) -> "Axes":
    """Every head of a map, or of all maps of a record, as a small heat map, on one square-root colour scale.

    item      batch item
    colours   a matplotlib colour map

    Rows are queries, columns are keys; a cell of several weights shows the largest. Steps of a generation are one map.
    """
    groups = {name: single_map(group) for name, group in join_steps(maps_of(what, item)).items()}
    tiles = {name: pool_heads(amap, CELLS, CELLS) for name, amap in groups.items()}
    heads = max(amap.heads for amap in groups.values())
    if ax is None:
        ax = own_axes(*grid_size(len(groups), heads))
    style = colours_for(np.concatenate([tile.peak.ravel() for tile in tiles.values()]), colours, root=True)
    image = None
    for y, tile in enumerate(tiles.values()):
        for x, peak in enumerate(tile.peak):
            if peak.size:
                image = ax.imshow(
                    peak, **style, aspect="auto", interpolation="nearest", extent=(x, x + 1 - GAP, y + 1 - GAP, y)
                )
    ax.set(xlim=(-GAP, heads), ylim=(len(groups), -GAP), xlabel="head", ylabel="site" if len(groups) > 1 else "")
    ax.set_aspect("equal")
    middle = 0.5 - GAP / 2
    shorts = [short_name(name, place) for place, name in enumerate(groups)]
    ax.set_xticks([x + middle for x in range(heads)], [str(x) for x in range(heads)])
    ax.set_yticks([y + middle for y in range(len(groups))], shorts if len(groups) > 1 else [""], **letters(shorts))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if image is not None:
        said = {tile.legend for tile in tiles.values()}
        bar_for(image, ax, said.pop() if len(said) == 1 else "largest weight of a cell")
    return ax


def grid_size(sites: int, heads: int) -> tuple[float, float]:
    """Width and height in inches."""
    side = max(0.28, min(1.4, 9.0 / max(heads, 1)))
    return 1.7 + side * heads, 0.9 + side * sites
