"""Attention over image patches as an overlay on the image."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.core.maps.attention_map import AttentionMap

from ..axes import bar_for, one_row, own_axes
from ..token_text import display_names
from .figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AMBER = np.array([1.0, 0.66, 0.16])


def spotlight(image: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """An image with attention weights as an overlay: (height, width, 3) in [0, 1].

        pixel = (0.5 (1 - glow) + glow amber) ink + 0.22 glow amber,   glow = weight / largest weight

    image (height, width) or (height, width, 3) in [0, 1], weights (rows, columns) of the patch grid. A patch
    covers the pixels whose centre is in it, also if the grid does not divide the image. Uniform weights give uniform
    brightness.
    """
    ink = np.asarray(image, dtype=np.float64)
    grid = np.asarray(weights, dtype=np.float64)
    if (
        ink.ndim not in (2, 3)
        or (ink.ndim == 3 and ink.shape[2] != 3)
        or grid.ndim != 2
        or not grid.size
        or grid.shape[0] > ink.shape[0]
        or grid.shape[1] > ink.shape[1]
    ):
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
    """`spotlight` drawn on axes: bright patches have large weights; with a colour bar.

    weights   (rows, columns) of the image's patches, or an AttentionMap of one head
    row       of a map: the query, 0 being [CLS] in most vision models
    grid      of a map: (rows, columns) of its patches; by default that of rec.label(grid=...). Keys before the
              patches ([CLS], registers) are skipped.
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
    last = re.fullmatch(r"(\d+),(\d+)", display_names(amap.columns, amap.m)[-1]) if amap.m else None
    if grid is None and last is not None:
        grid = int(last[1]) + 1, int(last[2]) + 1
    if grid is None or not 0 < grid[0] * grid[1] <= amap.m:
        raise ValueError(
            f"overlay(grid={grid}) needs the (rows, columns) of the image's patches, at most {amap.m} of "
            "them; rec.label(grid=(14, 14), first=('[CLS]',)) sets it once for all maps."
        )
    return w[amap.m - grid[0] * grid[1] :].reshape(grid)


@figure("overlay")
def _of_a_map(amap: AttentionMap, *, image: Any = None, **how: Any) -> "Axes":
    """`overlay` as `plot("overlay", image=...)` calls it."""
    if image is None:
        raise ValueError("plot('overlay') needs image=, (height, width) or (height, width, 3) with values in [0, 1].")
    return overlay(image, amap, **how)
