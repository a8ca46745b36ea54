"""Attention as lines between two columns of tokens, with width proportional to the weight."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..axes import given_names, letters, own_axes, two_dimensional
from .figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 5000  # maximum number of lines


@figure("lines")
def line_map(
    weights: Any,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    colours: Sequence[str] | None = None,
    top: float | None = None,
    width: float = 14.0,
    numbers: bool | None = None,
    mass: float = 1.0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Each weight as a line from its query, left, to its key, right.

        width = width w_ij / top points,   opacity = 0.3 + 0.55 w_ij / top,   colour = that of query i

    weights   an AttentionMap of one head (`amap[b, h]`) or an (n, m) array
    queries   n names from top to bottom, keys m names; by default positions
    colours   n colours, one for each query
    top       the weight of the broadest line, by default the largest; set it to compare figures
    numbers   print weights beside keys; by default for a single query
    mass      draw only the largest weights of each query, up to this share of its total

    Zero weights have no line, negative ones a dashed line.
    """
    import matplotlib
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    grid = two_dimensional(weights, "line_map")
    n, m = grid.shape
    queries, keys = given_names(weights, queries, keys, n, m, "line_map", broken=True)
    if colours is not None and len(colours) != n:
        raise ValueError(f"line_map(colours=) has {len(colours)} colours for {n} queries; give one for each.")
    ink = matplotlib.rcParams["text.color"]
    shades = ["#c9720c"] * n if colours is None else list(colours)
    size = np.abs(np.nan_to_num(grid))
    top = top or float(size.max(initial=0.0)) or 1.0
    left, right = _heights(n, max(n, m)), _heights(m, max(n, m))
    pairs = [(int(i), int(j)) for i, j in np.argwhere(_within(size, mass))]
    if len(pairs) > MOST:
        raise ValueError(
            f"line_map() draws at most {MOST:,} lines, and these are {len(pairs):,}: mass=0.5 draws the "
            "largest weights only, plot('heat') all of them, save_html() a page to scroll."
        )
    pairs.sort(key=lambda pair: size[pair])
    if ax is None:
        ax = own_axes(5.6, 0.9 + 0.55 * max(n, m))
    for i, j in pairs:
        share = min(float(size[i, j]) / top, 1.0)
        bend = [(0.0, left[i]), (0.45, left[i]), (0.55, right[j]), (1.0, right[j])]
        curve = Path(bend, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
        ax.add_patch(
            PathPatch(
                curve,
                fill=False,
                edgecolor=shades[i],
                linewidth=width * share,
                capstyle="butt",
                alpha=0.3 + 0.55 * share,
                zorder=1 + share,
                linestyle="--" if grid[i, j] < 0 else "-",
            )
        )
    how = letters([*queries, *keys])
    for i, name in enumerate(queries):
        ax.text(-0.04, left[i], name, ha="right", va="center", color=ink if n == 1 else shades[i], **how)
    for j, name in enumerate(keys):
        ax.text(1.04, right[j], name, ha="left", va="center", **how)
    if numbers or (numbers is None and n == 1):
        for i, j in pairs:
            away = 0.5 * width * min(float(size[i, j]) / top, 1.0) + 1
            above = right[j] >= left[i]  # on the side away from the line
            ax.annotate(
                f"{grid[i, j]:.2f}",
                (1.0, right[j]),
                (-2, away if above else -away),
                fontsize="x-small",
                textcoords="offset points",
                ha="right",
                va="bottom" if above else "top",
                zorder=4,
            )
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(-max(n, m) + 0.5, 0.5))
    return ax


def _within(size: NDArray[np.float64], mass: float) -> NDArray[np.bool_]:
    """Mask of the largest weights of each row that sum to this share; zero weights are excluded."""
    if not 0 < mass <= 1:
        raise ValueError(f"line_map(mass={mass}): expected a share above 0 and at most 1.")
    order = np.argsort(-size, axis=1, kind="stable")
    ranked = np.take_along_axis(size, order, 1)
    before = np.cumsum(ranked, 1) - ranked  # cumulative sum of the larger ones
    keep = np.zeros(size.shape, bool)
    np.put_along_axis(keep, order, before < (mass - 1e-12) * ranked.sum(1, keepdims=True), 1)
    return (keep if mass < 1 else np.ones_like(keep)) & (size > 0)


def _heights(count: int, of: int) -> list[float]:
    """Heights of the labels of a column, evenly spread over the height of the longer column."""
    if count < 2:
        return [-(of - 1) / 2] * count
    inset = 0.5 * (of / count - 1)  # the middle of an equal share of the height
    return [-(inset + place * (of - 1 - 2 * inset) / (count - 1)) for place in range(count)]
