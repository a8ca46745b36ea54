"""A graph whose edges are drawn by their weights."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..axes import letters, own_axes
from ..payload.graph_layout import layout_nodes
from ..token_text import display_names
from .figure import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@figure("graph")
def graph_map(
    weights: Any,
    edge_index: ArrayLike | None = None,
    places: ArrayLike | None = None,
    *,
    colours: Sequence[str] | None = None,
    rings: Sequence[str] | None = None,
    squares: Sequence[int] = (),
    names: Sequence[Any] | None = None,
    top: float | None = None,
    size: float = 15.0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Each edge j -> i as an arc: broad at the source j (key), a point at the target i (query).

        width = 0.62 size w_ij / top,   opacity = 0.12 + 0.78 w_ij / top,   colour = that of j

    weights      an AttentionMap of one head over edges, or (E,) in the order of edge_index (2, E), sources then targets
    edge_index   not needed for a map over edges
    places       (N, 2) node positions; by default the force-directed layout of pages
    colours      N colours that fill the nodes; rings N colours of their outlines
    squares      indices of square nodes; names N labels; by default those of the map
    top          the weight of the broadest arc, by default the largest; set it to compare figures
    size         node diameter in points

    Self-loops are not drawn: their weight is what the arcs into a node lack to 1.
    """
    import matplotlib
    from matplotlib.patches import FancyArrowPatch

    ends = _ends(weights) if edge_index is None else _array(edge_index)
    weight = _on_edges(weights, ends)
    if names is None and getattr(weights, "columns", None) is not None:
        names = display_names(weights.columns, weights.m)
    names = None if names is None else [str(name) for name in names]  # indices may be names
    nodes = max(int(ends.max(initial=-1)) + 1, *(getattr(weights, side, 0) for side in ("n", "m")))
    spots = layout_nodes(ends[0], ends[1], nodes) if places is None else np.asarray(places, dtype=np.float64)
    if spots.ndim != 2 or spots.shape[1] != 2 or (ends.size and ends.max() >= len(spots)):
        raise ValueError(
            f"graph_map(places=) needs a position (x, y) for each node of edge_index, "
            f"given {spots.shape} for nodes up to {ends.max(initial=-1)}."
        )
    ink, ground = matplotlib.rcParams["text.color"], matplotlib.rcParams["axes.facecolor"]
    fills = [ink] * len(spots) if colours is None else list(colours)
    if ax is None:
        ax = own_axes(6.4, 4.8)
    top = top or float(weight.max(initial=0.0)) or 1.0
    reach = 0.5 * size + 2.5
    for edge in np.argsort(weight, kind="stable"):
        source, target = ends[:, edge]
        if source == target:
            continue
        share = min(float(weight[edge]) / top, 1.0)
        arc = FancyArrowPatch(
            tuple(spots[source]),
            tuple(spots[target]),
            arrowstyle=f"wedge,tail_width={0.62 * share:.4f},shrink_factor=0.5",
            connectionstyle="arc3,rad=0.13",
            mutation_scale=size,
            shrinkA=reach - 1,
            shrinkB=reach,
            linewidth=0,
            color=fills[source],
            alpha=0.12 + 0.78 * share,
            zorder=1 + share,
        )
        ax.add_patch(arc)
    rings = fills if rings is None else rings
    for node, (x, y) in enumerate(spots):
        shape = "s" if node in squares else "o"
        across = size * (0.89 if shape == "s" else 1.0)
        ax.plot(x, y, shape, ms=across, mfc=ground, mec=rings[node], mew=0.11 * size, zorder=3)
        ax.plot(x, y, shape, ms=0.68 * across, mfc=fills[node], mew=0, zorder=3)
        if names is not None and names[node]:
            fits = 0.45 * size * min(1.0, 2.2 / len(names[node]))  # two letters fill the disc
            ax.text(
                x,
                y,
                names[node],
                fontsize=fits,
                color=ground,
                weight="bold",
                ha="center",
                va="center_baseline",
                zorder=4,
                **letters([names[node]]),
            )
    ax.set_axis_off()
    if len(spots):
        low, high = spots.min(0), spots.max(0)
        room = 0.06 * (high - low) + 1e-6
        ax.set(xlim=(low[0] - room[0], high[0] + room[0]), ylim=(low[1] - room[1], high[1] + room[1]))
    return ax


def _ends(weights: Any) -> NDArray[Any]:
    """(2, E) of a map over edges, in the caller's order."""
    graph = getattr(weights, "graph", None)
    if graph is None:
        raise ValueError(
            "graph_map() needs edge_index= (2, E), sources then targets, or a map over Edges, which has it."
        )
    edge = graph.edge.long().cpu()
    own = edge < graph.edges  # added self-loops come after the caller's edges
    ends = np.zeros((2, graph.edges), dtype=np.int64)
    ends[:, edge[own]] = np.stack([graph.source.long().cpu()[own], graph.targets().long().cpu()[own]])
    return ends


def _on_edges(weights: Any, ends: NDArray[np.int64]) -> NDArray[np.float64]:
    if hasattr(weights, "edges"):
        weights = weights.edges()
    found = _array(weights).astype(np.float64)
    while found.ndim > 1 and found.shape[0] == 1:
        found = found[0]
    if ends.ndim != 2 or ends.shape[0] != 2 or found.shape != (ends.shape[1],):
        raise ValueError(
            f"graph_map() draws one head: expected weights (E,) and edge_index (2, E), given {found.shape} and "
            f"{ends.shape}. Choose one: amap.edges()[head]."
        )
    return found


def _array(x: Any) -> NDArray[Any]:
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
