"""What the live page of a monitor shows: alarms, curves by layer, and the heads of the last step, as HTML."""

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.recording import Monitor
    from regard.recording.monitor.monitor import Snapshot

# statistic: heading, what it means, how heads are brought together ("mean" or "max")
CURVES = {
    "relative": ("Entropy", "share of that of equal weights, mean of the heads", "mean"),
    "max_logit": ("Largest logit", "largest of the heads", "max"),
    "sink": ("Weight on the first token", "mean of the heads", "mean"),
    "effective": ("Effective keys", "mean of the heads", "mean"),
    "distance": ("Distance", "positions, mean of the heads", "mean"),
    "gradient": ("Share of the gradient", "of the largest head", "max"),
}
WIDE, HIGH, LEFT, LOW = 360, 150, 52, 18
SHOWN = 3  # alarms that are not folded away
POINTS = 200  # of a curve that are drawn


def monitor_content(monitor: "Monitor") -> str:
    """The content of the page as it is now."""
    history, alarms = list(monitor.history), list(monitor.alarms)
    if not history:
        return "<h1>Attention while it trains</h1><p>The first step has not ended yet.</p>"
    last = history[-1]
    name = "" if monitor.model is None else f"{type(monitor.model).__name__}, "
    head = (
        f"<h1>Attention while it trains</h1><p class=small>{escape(name)}step {last.step:,}, {len(history)} steps "
        f"looked at, {monitor.rows} rows each.</p>"
    )
    says = [f"<p class=alarm>{escape(alarm.says)}</p>" for alarm in reversed(alarms[-50:])]
    told = "".join(says[:SHOWN])
    if len(says) > SHOWN:
        earlier = f"<summary>{len(alarms) - SHOWN} earlier alarms</summary>{''.join(says[SHOWN:])}"
        told += f"<details id=alarms>{earlier}</details>"
    missed = ", ".join(f"{text} ({count})" for text, count in list(monitor.missed.items())[:5])
    missed = f"<p class=small>Not seen: {escape(missed)}</p>" if missed else ""
    curves = "".join(_curve(name, history) for name in CURVES)
    tables = "".join(_heads(name, last, i == 0) for i, name in enumerate(CURVES))
    legend = (
        "<p class=small>One line for each layer, from the first (blue) to the last (orange); a line that is pointed at "
        "says which.</p>"
    )
    heads = f"<h2>Heads at step {last.step:,}</h2>{tables}"
    return f"{head}{told}{missed}<div class=curves>{curves}</div>{legend}{heads}"


def _number(x: float) -> str:
    if math.isnan(x):
        return ""
    if abs(x) >= 1e6:
        return f"{x:.1e}"
    if abs(x) >= 100:
        return f"{x:,.0f}"
    return f"{x:.3g}" if abs(x) >= 1e-4 or x == 0 else "< .0001" if x > 0 else "0"


def _joined(values: "list[float]", how: str) -> float:
    real = [x for x in values if math.isfinite(x)]
    if not real:
        return math.nan
    return max(real) if how == "max" else sum(real) / len(real)


def _curve(name: str, history: "Sequence[Snapshot]") -> str:
    """One line a site, from cold (first) to warm (last)."""
    heading, means, how = CURVES[name]
    step = max(1, math.ceil(len(history) / POINTS))
    shown = [*history[:-1:step], history[-1]]
    sites = list(history[-1].sites)
    lines = {
        site: [(x.step, _joined(getattr(x.sites[site], name).tolist(), how)) for x in shown if site in x.sites]
        for site in sites
    }
    real = [y for line in lines.values() for _, y in line if math.isfinite(y)]
    caption = f"<figcaption>{heading} <span>{means}</span></figcaption>"
    if not real:
        return f"<figure>{caption}<p class=small>has no meaning here</p></figure>"
    low, high = min(0.0, *real), max(real)
    high = high if high > low else low + 1.0
    first, last = shown[0].step, max(shown[-1].step, shown[0].step + 1)

    def place(x: float, y: float) -> str:
        across = LEFT + (WIDE - LEFT - 6) * (x - first) / (last - first)
        return f"{across:.1f},{6 + (HIGH - LOW - 6) * (high - y) / (high - low):.1f}"

    drawn = []
    for at, (site, line) in enumerate(lines.items()):
        warm = round(100 * at / max(1, len(sites) - 1))
        points = [place(x, y) for x, y in line if math.isfinite(y)]
        points = points * 2 if len(points) == 1 else points
        drawn.append(
            f'<polyline class=curve stroke-linecap="round" style="stroke:color-mix(in oklab, var(--mark) {warm}%, '
            f'var(--cold))" points="{" ".join(points)}"><title>{escape(site)}</title></polyline>'
        )
    axes = (
        f'<path class=axis d="M{LEFT},4V{HIGH - LOW}H{WIDE}"/>'
        f'<text x="{LEFT - 4}" y="12" text-anchor="end">{_number(high)}</text>'
        f'<text x="{LEFT - 4}" y="{HIGH - LOW}" text-anchor="end">{_number(low)}</text>'
        f'<text x="{LEFT}" y="{HIGH - 4}">step {first:,}</text>'
        f'<text x="{WIDE}" y="{HIGH - 4}" text-anchor="end">{shown[-1].step:,}</text>'
    )
    return (
        f'<figure>{caption}<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{heading} by step">{axes}'
        f"{''.join(drawn)}</svg></figure>"
    )


def _heads(name: str, last: "Snapshot", opened: bool) -> str:
    """A line for each site, a cell for each head, darker where it is larger."""
    heading = CURVES[name][0]
    columns = {site: getattr(seen, name).tolist() for site, seen in last.sites.items()}
    real = [x for column in columns.values() for x in column if math.isfinite(x)]
    if not real:
        return ""
    low, high = min(0.0, *real), max(real)
    rows = []
    for site, column in columns.items():
        dead = set(last.sites[site].dead)
        cells = []
        for head, x in enumerate(column):
            share = 0 if math.isnan(x) or high <= low else round(60 * (x - low) / (high - low))
            told = " class=dead title='dead: it writes nearly nothing'" if head in dead else ""
            cells.append(
                f'<td{told} style="background:color-mix(in oklab, var(--mark) {share}%, var(--raised))">'
                f"{_number(x) or '–'}</td>"
            )
        pairs = ", ".join(f"{a} = {b}" for a, b in last.sites[site].duplicates)
        after = f"<td class=small>duplicates: {pairs}</td>" if pairs else ""
        rows.append(f"<tr><th scope=row>{escape(site)}</th>{''.join(cells)}{after}</tr>")
    return (
        f'<details id="heads-{name}"{" open" if opened else ""}><summary>{heading}</summary><div class=scroll>'
        f"<table class=heads>{''.join(rows)}</table></div></details>"
    )
