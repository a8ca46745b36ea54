"""Artifacts of a report as SVG figures in the CSS colours of the page, light and dark."""

import io
import re
from collections.abc import Callable
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from ..judging.artifacts import Histogram, Numbers, Plot
from .plotting import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.6  # inches: text stays readable on a phone
MOST = 2000  # points drawn of a series
BINS = 24
# Placeholder colours, replaced by CSS variables of the page.
INK, SOFT, LINE, GOOD, BAD = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05"
SERIES = ("#0a0c00", "#0a0c01", "#0a0c02", "#0a0c03", "#0a0c04")
VARIABLES = {INK: "--ink", SOFT: "--soft", LINE: "--line", GOOD: "--good", BAD: "--bad"}
VARIABLES |= {name: f"--c{i}" for i, name in enumerate(SERIES)}
STYLE: dict[str, Any] = {
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": LINE,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "grid.color": LINE,
    "font.size": 8.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "text.parse_math": False,
}


def chart(evidence: Histogram | Plot) -> Markup:
    """An artifact as inline SVG."""
    rows = len(evidence.values) if isinstance(evidence, Histogram) else 0

    def draw(figure: "Figure") -> None:
        if isinstance(evidence, Histogram):
            _histogram(figure, evidence)
        else:
            _plot(figure.add_subplot(), evidence)

    return drawn(draw, (WIDTH, 0.55 + 0.52 * rows if rows else 3.4), f"{evidence.title}: {evidence.says}")


def drawn(draw: "Callable[[Figure], None]", size: tuple[float, float], alt: str) -> Markup:
    """A figure of `size` inches, filled by `draw`, as SVG in the colours of the page."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE | PAPER):
        figure = Figure(size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return _inside(file.getvalue().decode(), alt)


def _histogram(figure: Any, evidence: Histogram) -> None:
    """Histograms stacked on a common axis, with a line at each mean."""
    found = {name: np.array([x for x in some if x is not None]) for name, some in evidence.values.items()}
    every = np.concatenate(list(found.values())) if found else np.zeros(0)
    low, high = (every.min(), every.max()) if every.size else (0.0, 1.0)
    edges = np.linspace(low, high, BINS + 1) if high > low else np.linspace(low - 0.5, low + 0.5, BINS + 1)
    if not found:
        return
    from matplotlib.ticker import MaxNLocator

    several = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
    for place, (ax, (name, values)) in enumerate(zip(several, found.items(), strict=True)):
        colour = SERIES[place % len(SERIES)]
        ax.hist(values, edges, color=colour, alpha=0.8)
        ax.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
        if values.size:
            ax.axvline(values.mean(), color=INK, linewidth=1.2)
        said = f"{name}: mean {values.mean():.2f}" if values.size else f"{name}: undefined everywhere"
        ax.set_title(said, loc="left", fontsize=8.5, pad=2)
    several[-1].set_xlabel(evidence.axis)
    figure.supylabel("instances", fontsize=8.5, color=SOFT)


def _plot(ax: "Axes", evidence: Plot) -> None:
    for place, one in enumerate(evidence.series):
        x, y = _numbers(one.x), _numbers(one.y)
        colour, name = SERIES[place % len(SERIES)], one.name
        if one.line:
            ax.plot(x, y, color=colour, linewidth=1.6, marker="o", markersize=3, label=name)
            if one.low is not None and one.high is not None:
                low, high = _numbers(one.low), _numbers(one.high)
                ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        else:
            if len(x) > MOST:
                kept = np.linspace(0, len(x) - 1, MOST).astype(int)
                x, y, name = x[kept], y[kept], f"{name} ({MOST} of {len(one.x)} drawn)"
            ax.scatter(x, y, s=9, color=colour, alpha=0.55, linewidths=0, label=name)
    ax.set(xlabel=evidence.x, ylabel=fill(evidence.y, 30))
    ax.grid(alpha=0.6, linewidth=0.6)
    ax.set_axisbelow(True)
    for ends, put in ((ax.get_xlim(), ax.set_xlim), (ax.get_ylim(), ax.set_ylim)):
        if ends[0] > 0:  # start positive axes at 0
            put(0, ends[1])
    if len(evidence.series) > 1:
        ax.figure.legend(*ax.get_legend_handles_labels(), fontsize=8, loc="outside upper left")


def _numbers(some: Numbers) -> np.ndarray:
    return np.array([np.nan if x is None else x for x in some], dtype=np.float64)


def _inside(svg: str, alt: str) -> Markup:
    """The <svg> element alone, without metadata and namespaces, in the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    head = Markup('<svg role="img" aria-label="{}" class="figure" ').format(alt)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)  # the width of the container
    return Markup(svg.replace("<svg ", head, 1))
