"""The table and the picture of `regard study alignments`."""

from collections.abc import Sequence
from pathlib import Path

from regard.studies.report import Sheet
from regard.views.plotting import save_figure

from .other_alignments import Ends, Survival, TuneSetting

BEFORE, AFTER = "#c2410c", "#1d4ed8"


def survival_sheet(found: Sequence[Survival], unigram: float, setting: TuneSetting) -> Sheet:
    """A row for each alignment: perplexity before and after, and beside softmax's of the same moment."""
    peer = next((one for one in found if one.align == "softmax"), None)
    rows = []
    for one in found:
        cells = [one.align]
        for after in (False, True):
            cells.append(_cell(one.perplexity(after), "{:.4g}"))
            beside = None if peer is None or one is peer else one.ratio(peer, after)
            cells.append(_cell(beside, "{:.3g}"))
        rows.append((*cells, f"{one.seconds:.0f}"))
    rows.append(("unigram model", f"{unigram:.4g}", "-", "-", "-", "-"))
    return Sheet(
        f"{setting.model}, WikiText-2: perplexity over {setting.sequences} test sequences of {setting.tokens} tokens, "
        f"before and after {setting.steps} steps",
        ("alignment", "before", "/ softmax", "after", "/ softmax", "CPU s"),
        tuple(rows),
    )


def _cell(found: "tuple[float, Ends | None] | None", shape: str) -> str:
    if found is None:
        return "-"
    value, ends = found
    text = shape.format(value)
    return text if ends is None else f"{text} ({shape.format(ends[0])} to {shape.format(ends[1])})"


def survival_figure(found: Sequence[Survival], unigram: float, path: "str | Path") -> Path:
    """Perplexities before and after with their intervals (left), and the losses of the tune (right)."""
    from matplotlib.figure import Figure

    tuned = any(one.losses for one in found)
    figure = Figure((11 if tuned else 6, 3.6), layout="constrained")
    axes = figure.subplots(1, 2 if tuned else 1, squeeze=False)[0]
    for after, colour, label in ((False, BEFORE, "before"), (True, AFTER, "after the tune")):
        shift = 0.12 if after else -0.12
        points = [(row + shift, one.perplexity(after)) for row, one in enumerate(found)]
        for y, point in points:
            if point is not None:
                value, ends = point
                low, high = (value, value) if ends is None else ends
                bars = [[max(0.0, value - low)], [max(0.0, high - value)]]
                axes[0].errorbar(value, y, xerr=bars, fmt="o", color=colour, capsize=2.5, ms=5)
        axes[0].plot([], [], "o", color=colour, label=label)
    axes[0].axvline(unigram, color="0.6", lw=1, ls=":", label="unigram model")
    axes[0].set_yticks(range(len(found)), [one.align for one in found])
    axes[0].invert_yaxis()
    axes[0].set(xscale="log", xlabel="perplexity per token (95 % interval over sequences)")
    axes[0].legend(frameon=False, fontsize=8)
    if tuned:
        for one in found:
            if one.losses:
                axes[1].plot(range(1, len(one.losses) + 1), one.losses, lw=1.2, label=one.align)
        axes[1].set(xlabel="step", ylabel="nats per token of the step's sequence")
        axes[1].legend(frameon=False, fontsize=8)
    return save_figure(figure, path, dots=110)
