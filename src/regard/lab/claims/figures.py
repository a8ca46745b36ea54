"""Figures and tables of claims: each panel with its intervals."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.studies.report import Sheet, markdown
from regard.views.plotting import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .claim import Claim, Panel

COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#475569", "#db2777", "#0e7490")
MARKS = "osD^vP*"


def claim_figure(claim: "Claim", path: "str | Path") -> Path:
    """Every panel of a claim, two side by side, with intervals as bars; .png, .svg or .pdf."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(claim.panels) / 2)
    figure = Figure((14, 3.7 * rows), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False).flatten()
    for ax, panel in zip(axes, claim.panels, strict=False):
        draw_panel(panel, ax)
    for ax in axes[len(claim.panels) :]:
        ax.set_axis_off()
    return save_figure(figure, path, dots=110)


def draw_panel(panel: "Panel", ax: "Axes") -> None:
    """Curves where x are numbers, points side by side where they are names; bars are the intervals."""
    named = any(isinstance(place, str) for place in panel.x)
    count = len(panel.curves)
    for number, curve in enumerate(panel.curves):
        shift = (number - (count - 1) / 2) * 0.6 / max(count, 1) if named else 0.0
        places = [at + shift if named else float(panel.x[at]) for at in range(len(panel.x))]
        known = [
            (x, one.value, one.interval)
            for x, one in zip(places, curve.findings, strict=True)
            if one is not None and one.value is not None
        ]
        if not known:
            continue
        x, y = [x for x, _, _ in known], [value for _, value, _ in known]
        ends = [(value, value) if interval is None else interval for _, value, interval in known]
        bars = [
            [max(0.0, v - low) for v, (low, _) in zip(y, ends, strict=True)],
            [max(0.0, high - v) for v, (_, high) in zip(y, ends, strict=True)],
        ]
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % len(MARKS)], "ms": 5}
        alone = all(interval is None for _, _, interval in known)
        line = "none" if named else "--" if alone else "-"
        ax.errorbar(x, y, yerr=None if alone else bars, label=curve.name, capsize=2.5, lw=1.4, ls=line, **style)
    if panel.limit is not None:
        ax.axhline(panel.limit[1], color="0.6", lw=1, ls=":", zorder=0)
        ax.annotate(
            panel.limit[0],
            (1, panel.limit[1]),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=7,
            color="0.45",
        )
    if named:
        ax.set_xticks(range(len(panel.x)), [str(place).replace("_", " ") for place in panel.x], fontsize=8)
    else:
        for axis in panel.log:
            getattr(ax, f"set_{axis}scale")("log", **({"base": 2} if axis == "x" else {}))
        ax.set_xticks([float(place) for place in panel.x], [f"{place:g}" for place in panel.x])
        ax.minorticks_off()
    ax.set(xlabel=panel.along, ylabel=panel.y)
    ax.set_title(panel.title, fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))  # over no curve


def claim_sheets(claim: "Claim") -> list[Sheet]:
    """A sheet for each panel: rows along its axis, a column a curve, value [low, high]."""
    made = []
    for panel in claim.panels:
        title = panel.title if panel.title.endswith(panel.y) else f"{panel.title} · {panel.y}"
        rows = tuple(
            (x if isinstance(x, str) else f"{x:g}", *(cell(curve.findings[place]) for curve in panel.curves))
            for place, x in enumerate(panel.x)
        )
        made.append(Sheet(title, (panel.along, *(curve.name for curve in panel.curves)), rows))
    return made


def claim_markdown(claim: "Claim") -> str:
    """The tables in Markdown, with the claim before and the answer after them."""
    parts = [f"Claim: {claim.says}"]
    for panel, sheet in zip(claim.panels, claim_sheets(claim), strict=True):
        note = f"\n{panel.note}" if panel.note else ""
        parts.append(f"**{panel.title}** ({panel.y})\n\n{markdown(sheet)}{note}".rstrip())
    parts.append("\n".join(f"- {sentence}" for sentence in (*claim.answer, claim.caution) if sentence))
    return "\n\n".join(parts) + "\n"


def cell(finding: Any) -> str:
    """value [low, high]; a dash if not measured."""
    if finding is None or finding.value is None:
        return "-"
    if finding.interval is None:
        return _short(finding.value)
    low, high = (_short(end) for end in finding.interval)
    return f"{_short(finding.value)} [{low}, {high}]"


def _short(value: float) -> str:
    """Two decimals, or one digit where those are 0. Smaller values than 0.0001 are shown as such."""
    if abs(value) < 1e-15:  # rounding error of 0
        return "0.00"
    if abs(value) < 0.0001:
        return "<0.0001" if value > 0 else ">-0.0001"
    return f"{value:.2f}" if abs(value) >= 0.01 else f"{value:.1g}"
