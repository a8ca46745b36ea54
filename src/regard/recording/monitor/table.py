"""A run as a text table: each site's last statistics beside its first."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from .alarms import Alarm
    from .monitor import Snapshot

HEADINGS = ("site", "heads", "entropy", "keys", "max logit", "sink", "distance", "gradient", "dead", "duplicates")


def table_of(history: "Sequence[Snapshot]", alarms: "Sequence[Alarm]", missed: Mapping[str, int]) -> str:
    """Means over the heads, `first -> last`; the largest logit and the largest share of the gradient."""
    if not history:
        return "No step was looked at."
    first, last = history[0], history[-1]
    before_number, after = _shared(list(last.sites))
    lines = [HEADINGS]
    for site, now in last.sites.items():
        before = first.sites.get(site, now)
        pairs = "  ".join(f"{a}={b}" for a, b in now.duplicates[:3]) + (" ..." if len(now.duplicates) > 3 else "")
        lines.append(
            (
                site[len(before_number) : len(site) - len(after)],
                str(now.heads),
                _change(_mean(before.entropy), _mean(now.entropy)),
                _change(_mean(before.effective), _mean(now.effective)),
                _change(_most(before.max_logit), _most(now.max_logit)),
                _change(_mean(before.sink), _mean(now.sink)),
                _change(_mean(before.distance), _mean(now.distance)),
                _number(_most(now.gradient)),
                ", ".join(map(str, now.dead)) or "-",
                pairs or "-",
            )
        )
    wide = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    made = ["  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip() for line in lines]
    steps = f"step {first.step}" if first is last else f"steps {first.step} -> {last.step}"
    where = f", {before_number}*{after}" if before_number or after else ""
    made.insert(0, f"Attention{where}: {steps}, {len(history)} looked at")
    made += [str(alarm) for alarm in alarms]
    made += [f"not seen: {entry} ({count})" for entry, count in list(missed.items())[:5]]
    return "\n".join(made)


def _shared(sites: list[str]) -> tuple[str, str]:
    """The common prefix and suffix of all names: both sides of the star in model.layers.*.self_attn."""
    if len(sites) < 2:
        return "", ""
    names = [site.split(".") for site in sites]
    before = _alike(names)
    after = _alike([name[before:][:0:-1] for name in names])
    return "".join(f"{x}." for x in names[0][:before]), "".join(f".{x}" for x in names[0][len(names[0]) - after :])


def _alike(names: list[list[str]]) -> int:
    """How many of their first parts are the same in all."""
    columns = zip(*names, strict=False)
    return next((i for i, column in enumerate(columns) if len(set(column)) > 1), min(map(len, names)))


def _mean(x: Tensor) -> float:
    return float(x.nanmean())


def _most(x: Tensor) -> float:
    real = x[~x.isnan()]
    return float(real.max()) if real.numel() else math.nan


def _number(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:,.0f}" if 1000 <= abs(x) < 1e6 else f"{x:.3g}"


def _change(a: float, b: float) -> str:
    return _number(b) if _number(a) == _number(b) else f"{_number(a)} -> {_number(b)}"
