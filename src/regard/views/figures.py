"""Static figures: a map as a heat map, a map of image patches as light on the image.

Row = the one attending, drawn on Y from top to bottom; column = the attended, drawn on X.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AMBER = np.array([1.0, 0.66, 0.16])
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
MANY_CELLS = 12  # more cells a side than this and their numbers are no longer readable


def heat_map(
    weights: Any,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    ax: "Axes | None" = None,
    colours: str = "YlOrBr",
    numbers: bool | None = None,
) -> "Axes":
    """Weights (n, m) as colours: queries on Y, keys on X, both axes named, the scale from 0 to the largest weight.

    weights   an AttentionMap of one head (`amap[b, h]`) or an (n, m) array
    queries   n names for the rows, keys m names for the columns; positions where they are not given
    numbers   write each weight into its cell; by default where there are at most 12 a side
    """
    import matplotlib.pyplot as plt

    grid = _two_dimensional(weights)
    n, m = grid.shape
    queries, keys = _names(queries, n, "queries"), _names(keys, m, "keys")
    if ax is None:
        ax = plt.subplots(figsize=(1.6 + 0.72 * min(m, MANY_CELLS), 1.2 + 0.62 * min(n, MANY_CELLS)))[1]
    top = float(grid.max(initial=0.0)) or 1.0
    image = ax.imshow(grid, cmap=colours, vmin=0.0, vmax=top, aspect="auto", interpolation="nearest")
    if max(n, m) <= 4 * MANY_CELLS:
        ax.set_xticks(range(m), keys, rotation=0 if max(map(len, keys), default=0) <= 4 else 45)
        ax.set_yticks(range(n), queries)
    ax.set_xlabel("key (attended)")
    ax.set_ylabel("query (attending)")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if numbers or (numbers is None and max(n, m) <= MANY_CELLS):
        for (i, j), weight in np.ndenumerate(grid):
            dark = np.dot(image.cmap(weight / top)[:3], LUMINANCE) < 0.45
            ax.text(j, i, f"{weight:.4f}", ha="center", va="center", color="white" if dark else "black")
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, label="weight")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    return ax


def spotlight(image: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """An image under the light of its weights: (height, width, 3), each value in [0, 1].

        pixel = (0.5 grey + glow amber) ink + 0.22 glow amber,   glow = weight / largest weight

    image (height, width) in [0, 1], weights (rows, columns) of a grid of patches that divides the image evenly.
    Uniform weights light every patch alike.
    """
    ink = np.asarray(image, dtype=np.float64)
    grid = np.asarray(weights, dtype=np.float64)
    tall, wide = (side // cells if cells else 0 for side, cells in zip(ink.shape, grid.shape, strict=True))
    if (tall * grid.shape[0], wide * grid.shape[1]) != ink.shape:
        raise ValueError(
            f"spotlight() needs weights whose grid divides the image: the weights are {grid.shape}, "
            f"the image is {ink.shape}. "
            "Reshape one row of a map to its patches: amap.row(0).reshape(rows, columns)."
        )
    glow = np.kron(grid / (grid.max() or 1.0), np.ones((tall, wide)))[..., None]
    lit = (0.5 * (1 - glow) + glow * AMBER) * ink[..., None] + 0.22 * glow * AMBER
    return np.clip(lit, 0.0, 1.0)


def overlay(image: ArrayLike, weights: ArrayLike, *, ax: "Axes | None" = None) -> "Axes":
    """The spotlight drawn on axes: bright where the map looks, dim where it does not."""
    import matplotlib.pyplot as plt

    if ax is None:
        ax = plt.subplots(figsize=(2.4, 2.4))[1]
    ax.imshow(spotlight(image, weights), interpolation="nearest")
    ax.set_axis_off()
    return ax


def _two_dimensional(weights: Any, drawer: str = "heat_map") -> NDArray[np.float64]:
    if hasattr(weights, "weights"):
        weights = weights.weights()
    if hasattr(weights, "detach"):
        weights = weights.detach().double().cpu().numpy()
    grid = np.asarray(weights, dtype=np.float64)
    while grid.ndim > 2 and grid.shape[0] == 1:
        grid = grid[0]
    if grid.ndim != 2:
        raise ValueError(
            f"{drawer}() draws one head: expected weights (n, m), given {grid.shape}. Choose one: amap[batch, head]."
        )
    return grid


def _names(names: Sequence[str] | None, count: int, argument: str, drawer: str = "heat_map") -> list[str]:
    if names is None:
        return [str(i) for i in range(count)]
    if len(names) != count:
        raise ValueError(f"{drawer}({argument}=) has {len(names)} names for {count} {argument}; give one for each.")
    return list(names)
