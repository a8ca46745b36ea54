"""Helpers of figures: axes, tick labels, accessible colours, colour bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .token_text import display_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # relative luminance of red, green and blue (Rec. 709)
# Fonts for scripts that matplotlib's default lacks, in order of preference.
WIDE = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Source Han Sans SC",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Yu Gothic",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Symbols 2",
)


def own_axes(width: float, height: float) -> "Axes":
    """A new pyplot figure with one pair of axes, for drawing without ax=."""
    import matplotlib.pyplot as plt

    axes: Axes = plt.subplots(figsize=(width, height), layout="constrained")[1]
    return axes


def letters(names: Sequence[str]) -> dict[str, Any]:
    """Text properties of labels: no mathtext, and fallback fonts for non-Latin scripts."""
    import matplotlib
    from matplotlib.font_manager import fontManager

    made: dict[str, Any] = {"parse_math": False}
    if any(ord(letter) > 0x7FF for name in names for letter in name):
        there = {font.name for font in fontManager.ttflist}
        own = "DejaVu Sans"  # matplotlib's own, which has the symbols for space and line feed
        made["fontfamily"] = [*matplotlib.rcParams["font.family"], *(font for font in WIDE if font in there), own]
    return made


def colours_for(grid: NDArray[Any], colours: str | None, root: bool = False) -> dict[str, Any]:
    """Colour map and norm: from 0 to the largest weight, linear or by the square root; diverging around 0 if signed."""
    from matplotlib.colors import Normalize, PowerNorm

    top = float(np.nanmax(np.abs(grid), initial=0.0)) or 1.0
    if np.nanmin(grid, initial=0.0) < 0:
        return {"cmap": colours or "PuOr_r", "norm": Normalize(-top, top)}
    return {"cmap": colours or "YlOrBr", "norm": PowerNorm(0.5, 0.0, top) if root else Normalize(0.0, top)}


def bar_for(image: Any, ax: "Axes", label: str) -> None:
    """A colour bar with its label."""
    from matplotlib.colors import PowerNorm

    label += " (root scale)" if isinstance(image.norm, PowerNorm) else ""
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, label=label)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def two_dimensional(weights: Any, drawer: str = "heat_map") -> NDArray[np.float64]:
    """The weights (n, m) of one head."""
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


def one_row(amap: Any, row: int, drawer: str) -> NDArray[np.float64]:
    """(m,): one row of one head."""
    found = amap.row(row).detach().double().cpu().numpy()
    while found.ndim > 1 and found.shape[0] == 1:
        found = found[0]
    if found.ndim != 1:
        raise ValueError(f"{drawer}() draws one head: the map has shape {amap.shape}. Choose one: amap[batch, head].")
    return found


def given_names(
    weights: Any,
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    n: int,
    m: int,
    drawer: str = "heat_map",
    broken: bool = False,
) -> tuple[list[str], list[str]]:
    """Labels of rows and columns: as passed, else the map's own, else positions.

    broken   labels as passed may contain line breaks; those of a map are tokens, whose line feeds are shown
    """
    made = []
    for names, own, count, argument in ((queries, "rows", n, "queries"), (keys, "columns", m, "keys")):
        if names is not None and len(names) != count:
            raise ValueError(f"{drawer}({argument}=) has {len(names)} names for {count} {argument}; give one for each.")
        made.append(
            display_names(getattr(weights, own, None) if names is None else names, count, broken and names is not None)
        )
    return made[0], made[1]
