"""What figures share: axes of their own, names as they are, colours that everybody can tell apart, a labelled bar."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .token_text import display_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # how bright red, green and blue are to the eye
# Fonts with letters that matplotlib's own has not, in the order in which they are looked for.
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
    """A figure of pyplot's with one pair of axes, for a drawing that was given none."""
    import matplotlib.pyplot as plt

    axes: Axes = plt.subplots(figsize=(width, height), layout="constrained")[1]
    return axes


def letters(names: Sequence[str]) -> dict[str, Any]:
    """How to write names: `$` and `_` are letters, not mathematics; other scripts have a font where there is one."""
    import matplotlib
    from matplotlib.font_manager import fontManager

    made: dict[str, Any] = {"parse_math": False}
    if any(ord(letter) > 0x7FF for name in names for letter in name):
        there = {font.name for font in fontManager.ttflist}
        own = "DejaVu Sans"  # comes with matplotlib, and has the signs for a space and for a line's end
        made["fontfamily"] = [*matplotlib.rcParams["font.family"], *(font for font in WIDE if font in there), own]
    return made


def colours_for(grid: NDArray[Any], colours: str | None, root: bool = False) -> dict[str, Any]:
    """From 0 to the largest weight, pale to dark, by the weight or its root; around 0 where some are below it."""
    from matplotlib.colors import Normalize, PowerNorm

    top = float(np.nanmax(np.abs(grid), initial=0.0)) or 1.0
    if np.nanmin(grid, initial=0.0) < 0:
        return {"cmap": colours or "PuOr_r", "norm": Normalize(-top, top)}
    return {"cmap": colours or "YlOrBr", "norm": PowerNorm(0.5, 0.0, top) if root else Normalize(0.0, top)}


def bar_for(image: Any, ax: "Axes", label: str) -> None:
    """The colours beside the picture, with numbers and what they are of."""
    from matplotlib.colors import PowerNorm

    label += " (root scale)" if isinstance(image.norm, PowerNorm) else ""
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, label=label)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def two_dimensional(weights: Any, drawer: str = "heat_map") -> NDArray[np.float64]:
    """(n, m) of one head."""
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
    """(m,): what one query of one head gives."""
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
    """The names that were given, else the map's own, else positions.

    broken   names that were given may stand on several lines; those of a map are tokens, whose line ends are seen
    """
    made = []
    for names, own, count, argument in ((queries, "rows", n, "queries"), (keys, "columns", m, "keys")):
        if names is not None and len(names) != count:
            raise ValueError(f"{drawer}({argument}=) has {len(names)} names for {count} {argument}; give one for each.")
        made.append(
            display_names(getattr(weights, own, None) if names is None else names, count, broken and names is not None)
        )
    return made[0], made[1]
