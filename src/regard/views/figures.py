"""Static figures: a map as a heat map, a map of image patches as light on the image.

Row = the one attending, drawn on Y from top to bottom; column = the attended, drawn on X.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.maps import AttentionMap
from .drawing import bar_for, colours_for, given_names, letters, one_row, own_axes, two_dimensional
from .naming import names_of
from .small import WHOLE, small

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AMBER = np.array([1.0, 0.66, 0.16])
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
MANY_CELLS = 12  # more cells a side than this and their numbers are no longer readable
FINEST = 1024  # cells a side of a large map


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
    queries   n names for the rows, keys m names for the columns; by default what the map calls them, else positions
    colours   a colour map of matplotlib; by default YlOrBr, and PuOr around 0 where weights are below it
    root      colours by the root of the weight, which shows faint ones; by default where the map is large
    numbers   write each weight into its cell; by default where there are at most 12 a side

    A map of more than a million weights is drawn from its pyramid: a cell shows its largest, and the bar says so.
    """
    label, tall, wide = "weight", 1, 1
    if isinstance(weights, AttentionMap) and weights.n * weights.m > WHOLE and weights.heads == 1:
        n, m = weights.n, weights.m
        found = small(weights, FINEST, FINEST)
        grid, label, tall, wide = found.peak[0].astype(np.float64), found.said, found.tall, found.wide
    else:
        grid = two_dimensional(weights)
        n, m = grid.shape
    queries, keys = given_names(weights, queries, keys, n, m)
    if ax is None:
        ax = own_axes(*heat_size(n, m))
    style = colours_for(grid, colours, tall * wide > 1 if root is None else root)
    image = ax.imshow(grid, **style, aspect="auto", interpolation="nearest",
                      extent=(-0.5, wide * grid.shape[1] - 0.5, tall * grid.shape[0] - 0.5, -0.5))  # fmt: skip
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
    """Inches across and down."""
    return 1.6 + 0.72 * min(m, MANY_CELLS), 1.2 + 0.62 * min(n, MANY_CELLS)


def spotlight(image: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """An image under the light of its weights: (height, width, 3), each value in [0, 1].

        pixel = (0.5 (1 - glow) + glow amber) ink + 0.22 glow amber,   glow = weight / largest weight

    image (height, width) or (height, width, 3) in [0, 1], weights (rows, columns) of its grid of patches. A patch
    lights the pixels whose middle lies in it, also where the grid does not divide the image. Uniform weights light all
    alike.
    """
    ink = np.asarray(image, dtype=np.float64)
    grid = np.asarray(weights, dtype=np.float64)
    if ink.ndim not in (2, 3) or (ink.ndim == 3 and ink.shape[2] != 3) or grid.ndim != 2 or not grid.size \
            or grid.shape[0] > ink.shape[0] or grid.shape[1] > ink.shape[1]:  # fmt: skip
        raise ValueError(
            f"spotlight() needs an image (height, width) or (height, width, 3) and weights (rows, columns) of its "
            f"patches: the weights are {grid.shape}, the image is {ink.shape}. "
            "Reshape one row of a map to its patches: amap.row(0).reshape(rows, columns)."
        )
    ink = ink[..., None] if ink.ndim == 2 else ink
    at = [(np.arange(size) + 0.5) * cells // size for size, cells in zip(ink.shape, grid.shape, strict=False)]
    glow = (grid / (grid.max() or 1.0))[np.ix_(at[0].astype(int), at[1].astype(int))][..., None]
    lit = (0.5 * (1 - glow) + glow * AMBER) * ink + 0.22 * glow * AMBER
    return np.clip(lit, 0.0, 1.0)


def overlay(
    image: ArrayLike,
    weights: Any,
    *,
    row: int = 0,
    grid: "tuple[int, int] | None" = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """The spotlight drawn on axes: bright where the map looks, dim where it does not; the bar has the weights.

    weights   (rows, columns) of the image's patches, or an AttentionMap of one head
    row       of a map: who attends, 0 being [CLS] in most models of images
    grid      of a map: (rows, columns) of its patches; by default what rec.label(grid=...) said. Keys before the
              patches ([CLS], registers) are left out.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    if isinstance(weights, AttentionMap):
        weights = _patches(weights, row, grid)
    weights = np.asarray(weights, dtype=np.float64)
    if ax is None:
        ax = own_axes(3.4, 2.6)
    ax.imshow(spotlight(image, weights), interpolation="nearest")
    ax.set_axis_off()
    ramp = ListedColormap(spotlight(np.ones((1, 64)), np.linspace(0, 1, 64)[None])[0])
    bar_for(ScalarMappable(Normalize(0.0, float(weights.max()) or 1.0), ramp), ax, "weight, on white")
    return ax


def _patches(amap: AttentionMap, row: int, grid: "tuple[int, int] | None") -> NDArray[np.float64]:
    w = one_row(amap, row, "overlay")
    last = re.fullmatch(r"(\d+),(\d+)", names_of(amap.columns, amap.m)[-1]) if amap.m else None
    if grid is None and last is not None:
        grid = int(last[1]) + 1, int(last[2]) + 1
    if grid is None or not 0 < grid[0] * grid[1] <= amap.m:
        raise ValueError(f"overlay(grid={grid}) needs the (rows, columns) of the image's patches, at most {amap.m} of "
                         "them; rec.label(grid=(14, 14), first=('[CLS]',)) says it once for all maps.")  # fmt: skip
    return w[amap.m - grid[0] * grid[1] :].reshape(grid)
