"""Figures of the comparison, for a paper: what each model explains, what its attention is worth, what it points at."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.judging.finding import Finding
from regard.views.plotting import save_figure

from ..models.attention_variants import ABLATIONS, PLACES
from ..models.candidates import BASELINES, model_of
from ..protocol.splits import SPLITS
from .paired_tests import FEWEST, corrected_interval
from .report import SplitReport, brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "means": "#5d606b",
    "linear": "#2f6db3",
    "neighbours": "#00808a",
    "trees": "#1f7a4d",
    "network": "#8a7a00",
    "attention": "#c9720c",
}
SAYS = {
    "means": "mean effects",
    "linear": "linear, one per drug",
    "neighbours": "neighbours",
    "trees": "trees",
    "network": "network without attention",
    "attention": "network with attention",
}
ABLATION_COLOURS = dict(zip(ABLATIONS, ("#2f6db3", "#1f7a4d", "#8a4fa3"), strict=True))
LEFT_OUT = ("drug-mean", "line-mean")  # of figures: the mean effects of both contain them


def explained_figure(reports: Sequence[SplitReport], path: "str | Path") -> Path:
    """A panel for each split: how much each model explains of what the mean effects leave, with intervals."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = [_shown(one) for one in reports]
    figure = Figure(
        (3.4 + 2.3 * len(reports), 1.5 + 0.24 * len({name for some in rows for name in some})), layout="constrained"
    )
    axes = figure.subplots(1, len(reports), squeeze=False)[0]
    names = [name for name in (*BASELINES, *PLACES) if any(name in some for some in rows)]
    for ax, one, some in zip(axes, reports, rows, strict=True):
        for place, name in enumerate(names):
            values = one.folds(name, "explained")
            if values and name in some:
                _point(ax, place, 100 * np.array(values), COLOURS[model_of(name).family])
        ax.axvline(0, color=COLOURS["means"], lw=1)
        ax.axvline(100 * one.mean(one.trees, "explained"), color=COLOURS["trees"], lw=1, ls="--", zorder=0)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_yticks(
            range(len(names)), [brief(name) for name in names] if ax is axes[0] else [""] * len(names), fontsize=8
        )
        ax.set_title(SPLITS[one.split], fontsize=9, loc="left")
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="x", color="0.92", zorder=0)
    figure.supxlabel("% explained of what the mean effects leave (intervals over folds, corrected)", fontsize=9)
    kinds = [family for family in COLOURS if any(model_of(name).family == family for name in names)]
    marks = [Line2D([], [], marker="o", ls="", color=COLOURS[family], label=SAYS[family]) for family in kinds]
    marks.append(Line2D([], [], color=COLOURS["trees"], ls="--", lw=1, label="the best trees"))
    figure.legend(handles=marks, loc="outside upper center", ncols=min(4, len(marks)), fontsize=8, frameon=False)
    return save_figure(figure, path, dots=150)


def ablation_figure(reports: Sequence[SplitReport], path: "str | Path") -> "Path | None":
    """Learned weights minus each ablation, in RMSE; the band is what would be missed with power .8."""
    from matplotlib.figure import Figure

    shown = [one for one in reports if one.ablations]
    if not shown:
        return None
    figure = Figure((6.2, sum(1.3 + 0.26 * len(one.ablations) for one in shown)), layout="constrained")
    axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=[len(one.ablations) + 3 for one in shown])[:, 0]
    for ax, one in zip(axes, shown, strict=True):
        for place, pair in enumerate(one.ablations):
            colour = ABLATION_COLOURS[pair.reference.partition("/")[2]]
            ax.barh(place, 2 * pair.visible, left=-pair.visible, height=0.7, color="#ece7dc", zorder=0)
            if pair.interval is not None:
                ax.plot(pair.interval, [place, place], color=colour, lw=2)
            filled = pair.verdict in ("better", "worse")
            ax.plot(pair.difference, place, "o", ms=6, color=colour, mfc=colour if filled else "white", mew=1.5)
        ax.axvline(0, color="0.4", lw=1)
        labels = [f"{brief(pair.model)} minus {pair.reference.partition('/')[2]}" for pair in one.ablations]
        ax.set_yticks(range(len(labels)), labels, fontsize=8)
        ax.set_ylim(len(one.ablations) - 0.4, -0.6)
        ax.set_xlabel("difference in RMSE of ln IC50; left: the learned weights are better", fontsize=8)
        ax.set_title(SPLITS[one.split], fontsize=9, loc="left")
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, path, dots=150)


def reason_figure(findings: Sequence[Finding], path: "str | Path") -> Path:
    """Areas under the curve of known targets, cross-attention beside the other sources of importance."""
    from matplotlib.figure import Figure

    figure = Figure((7.6, 2.9), layout="constrained")
    for ax, one in zip(figure.subplots(1, len(findings), squeeze=False)[0], findings, strict=True):
        names = ["cross-attention", *(name for name in one.baselines if name != "chance")]
        for place, name in enumerate(names):
            value = one.value if name == "cross-attention" else one.baselines[name]
            ends = one.interval if name == "cross-attention" else None
            colour = COLOURS["attention"] if name == "cross-attention" else COLOURS["linear"]
            if ends is not None:
                ax.plot(ends, [place, place], color=colour, lw=2)
            ax.plot(value, place, "o", ms=6, color=colour)
        ax.axvline(0.5, color="0.4", lw=1, ls=":")
        ax.set_yticks(range(len(names)), names, fontsize=8)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlim(0.4, 0.7)
        ax.set_xlabel("area under the ROC curve (1/2: chance)", fontsize=8)
        ax.set_title(one.name.removeprefix("AUC of "), fontsize=9, loc="left")
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, path, dots=150)


def _shown(one: SplitReport) -> list[str]:
    """The models of a panel: without ablations, and with enough folds for an interval, if any has."""
    known = [name for name in one.models if "/" not in name and name not in LEFT_OUT]
    return [name for name in known if len(one.folds(name)) >= FEWEST] or known


def _point(ax: "Axes", place: int, values: np.ndarray, colour: str) -> None:
    """The mean, its interval, and the folds as small points."""
    ends = corrected_interval(list(values))
    if ends is not None:
        ax.plot(ends, [place, place], color=colour, lw=2, solid_capstyle="butt")
    ax.plot(values, [place] * len(values), "|", ms=5, color=colour, alpha=0.6)
    ax.plot(values.mean(), place, "o", ms=5, color=colour)
