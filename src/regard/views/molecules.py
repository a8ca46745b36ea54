"""Molecules with atoms coloured by weight."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .axes import bar_for, colours_for, own_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def molecule_map(
    weights: ArrayLike,
    edges: ArrayLike,
    places: ArrayLike,
    symbols: Sequence[str],
    *,
    ax: "Axes | None" = None,
    colours: str | None = None,
    bar: bool = True,
) -> "Axes":
    """Bonds as lines, atoms as discs coloured by weight; atoms other than carbon are labelled.

    weights (n,), edges (2, E) either way, places (n, 2) (`regard.data.smiles.layout`), symbols n names

    Only the colour of a disc has a meaning, from 0 to the largest weight; its area has none.
    """
    from matplotlib.cm import ScalarMappable

    w, spots = np.asarray(weights, dtype=np.float64), np.asarray(places, dtype=np.float64)
    ends = np.asarray(edges)
    if w.shape != (len(symbols),) or spots.shape != (len(symbols), 2) or (ends.size and ends.max() >= len(symbols)):
        raise ValueError(
            f"molecule_map(weights {w.shape}, places {spots.shape}, {len(symbols)} symbols): expected one "
            "weight, place and symbol for each atom, and edges between these."
        )
    ax = own_axes(4.2, 3.6) if ax is None else ax
    for first, last in {tuple(sorted(pair)) for pair in ends.T.tolist()}:
        ax.plot(*spots[[first, last]].T, color="#8a8d98", linewidth=1.2, zorder=1)
    paint = ScalarMappable(**colours_for(w, colours))
    shades = paint.to_rgba(w)
    ax.scatter(spots[:, 0], spots[:, 1], s=120, c=shades, edgecolors="#5d606b", linewidths=0.6, zorder=2)
    for (x, y), symbol, shade in zip(spots, symbols, shades, strict=True):
        if symbol != "C":
            dark = float(np.dot(shade[:3], (0.2126, 0.7152, 0.0722))) < 0.45
            ax.text(x, y, symbol, ha="center", va="center", fontsize=7, color="white" if dark else "black", zorder=3)
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.set_axis_off()
    if bar:
        bar_for(paint, ax, "weight")
    return ax
