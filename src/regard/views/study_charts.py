"""Figures of a study: differences with intervals, ranks across tasks, metrics by input length."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..studies.results import Measure
from ..studies.statistics import Analysis, Comparison, Ranks
from .axes import letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..studies.board import Board

COLOURS: dict[str, Any] = {  # for paper; pages replace them
    "ink": "#1d1f25",
    "soft": "#5d606b",
    "line": "#d8d3c8",
    "better": "#1f7a4d",
    "worse": "#b3382c",
    "band": "#ece7dc",
    "series": ("#c9720c", "#2f6db3", "#1f7a4d", "#8a4fa3", "#b3382c", "#5d606b", "#8a7a00", "#00808a"),
}


def forest_size(found: Analysis) -> tuple[float, float]:
    return 6.4, sum(0.75 + 0.27 * len(found.of(task)) for task in found.results.tasks if found.of(task))


def forest(figure: "Figure", found: Analysis, colours: Mapping[str, Any] = COLOURS) -> None:
    """Each variant minus the baseline: a point, its interval, and the band of differences detected with power below .8.

    One pair of axes for each task, since metrics differ. Filled points are significant.
    """
    tasks = [task for task in found.results.tasks if found.of(task)]
    sizes = [0.75 + 0.27 * len(found.of(task)) for task in tasks]
    several = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=sizes)[:, 0]
    for ax, task in zip(several, tasks, strict=True):
        _task(ax, found.of(task), found.results.measures[task][found.results.main(task)], colours)
        ax.set_title(task, loc="left", fontsize=9, color=colours["ink"], **letters([task]))


def _task(ax: "Axes", several: Sequence[Comparison], measure: Measure, colours: Mapping[str, Any]) -> None:
    scale = measure.scale
    for place, one in enumerate(several):
        value = scale * (one.difference.value or 0.0)
        colour = colours.get(one.verdict, colours["soft"])
        if math.isfinite(one.visible):
            ends = (-scale * one.visible, scale * one.visible)
            ax.barh(place, ends[1] - ends[0], left=ends[0], height=0.62, color=colours["band"], zorder=0)
        if one.difference.interval is not None:
            low, high = (scale * end for end in one.difference.interval)
            ax.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
        significant = one.verdict in ("better", "worse")
        ax.plot(
            value,
            place,
            marker="o",
            markersize=6,
            color=colour,
            markerfacecolor=colour if significant else "none",
            linestyle="none",
        )
    ax.axvline(0, color=colours["ink"], linewidth=0.9)
    names = [one.variant for one in several]
    ax.set_yticks(range(len(several)), names, **letters(names))
    ax.set_ylim(len(several) - 0.5, -0.5)
    side = "right" if measure.higher else "left"
    ax.set_xlabel(f"difference to {several[0].baseline}: {measure.says}, {side} is better", **letters([measure.says]))
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)


def ranks_size(ranks: Ranks) -> tuple[float, float]:
    return 6.4, 0.9 + 0.26 * math.ceil(len(ranks.variants) / 2) + 0.13 * len(ranks.groups)


def rank_plot(figure: "Figure", ranks: Ranks, colours: Mapping[str, Any] = COLOURS) -> None:
    """Average ranks, 1 is best; bars join variants not significantly different (Nemenyi). Demsar 2006."""
    ax = figure.add_subplot()
    count = len(ranks.variants)
    order = sorted(range(count), key=lambda at: ranks.average[at])
    half = math.ceil(count / 2)
    depth = 0.35 + 0.22 * len(ranks.groups)
    for place, at in enumerate(order):
        first = place < half
        level = depth + 0.42 * (place if first else count - 1 - place)
        x, edge = ranks.average[at], 0.55 if first else count + 0.45
        ax.plot([x, x, edge], [0, level, level], color=colours["soft"], linewidth=0.9)
        ax.text(
            edge,
            level,
            f"{ranks.variants[at]}  {x:.2f}" if first else f"{x:.2f}  {ranks.variants[at]}",
            ha="right" if first else "left",
            va="center",
            fontsize=8.5,
            color=colours["ink"],
            **letters([ranks.variants[at]]),
        )
    by_name = dict(zip(ranks.variants, ranks.average, strict=True))
    for place, group in enumerate(ranks.groups):
        ends = [by_name[group[0]] - 0.04, by_name[group[-1]] + 0.04]
        ax.plot(ends, [0.18 + 0.22 * place] * 2, color=colours["ink"], linewidth=3, solid_capstyle="round")
    ax.plot([1, count], [0, 0], color=colours["ink"], linewidth=1.1)
    for rank in range(1, count + 1):
        ax.plot([rank, rank], [0, -0.1], color=colours["ink"], linewidth=1)
        ax.text(rank, -0.2, str(rank), ha="center", va="bottom", fontsize=8.5, color=colours["soft"])
    if math.isfinite(ranks.critical):
        ax.plot([1, 1 + ranks.critical], [-0.75, -0.75], color=colours["soft"], linewidth=1.5)
        ax.text(1, -0.85, f"critical difference {ranks.critical:.2f}", fontsize=8, va="bottom", color=colours["soft"])
    ax.set_xlim(-0.9, count + 1.9)
    ax.set_ylim(depth + 0.42 * half, -1.25)
    ax.set_axis_off()


def cost_plot(figure: "Figure", found: "Board", colours: Mapping[str, Any] = COLOURS) -> None:
    """The mean rank of each variant beside what its trainings took, on a logarithmic axis."""
    ax = figure.add_subplot()
    assert found.ranks is not None
    for variant, rank in zip(found.ranks.variants, found.ranks.average, strict=True):
        ax.plot(max(found.cost[variant], 1e-6), rank, "o", markersize=6, color=colours["series"][1])
        ax.annotate(
            variant,
            (max(found.cost[variant], 1e-6), rank),
            xytext=(6, 4),
            textcoords="offset points",
            fontsize=8.5,
            color=colours["ink"],
            **letters([variant]),
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    ax.xaxis.set_minor_formatter(lambda x, _: "")
    ax.margins(x=0.15, y=0.15)
    ax.set(xlabel="core-hours", ylabel="mean rank, 1 is best")
    ax.grid(alpha=0.5, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def by_length(
    figure: "Figure",
    lengths: Mapping[str, Mapping[str, Sequence[float]]],
    measure: Measure,
    colours: Mapping[str, Any] = COLOURS,
) -> None:
    """The mean over seeds of each variant in bins of the input's length: {variant: {"2-11": values of seeds}}."""
    ax = figure.add_subplot()
    bins = sorted({name for found in lengths.values() for name in found}, key=lambda name: int(name.partition("-")[0]))
    for place, (variant, found) in enumerate(lengths.items()):
        known = [at for at, name in enumerate(bins) if found.get(name)]
        values = [measure.scale * sum(found[bins[at]]) / len(found[bins[at]]) for at in known]
        colour = colours["series"][place % len(colours["series"])]
        ax.plot(
            known,
            values,
            marker="o",
            markersize=3.5,
            linewidth=1.6,
            color=colour,
            label=variant,
            linestyle="-" if place < len(colours["series"]) else "--",
        )
    ax.set_xticks(range(len(bins)), bins)
    ax.set(xlabel="length of the input", ylabel=measure.says)
    ax.grid(alpha=0.5, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(*ax.get_legend_handles_labels(), fontsize=8, loc="outside right upper", frameon=False)
