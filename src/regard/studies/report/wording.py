"""Sentences about a comparison. None claims more than its test: absence of evidence is not evidence of absence."""

import math

import numpy as np

from regard.core.plural import count_of
from regard.models.training.experiment import Measure

from ..results import Results
from ..statistics import Comparison, seeds_for, smallest_p


def number(value: float | None, measure: Measure, signed: bool = False) -> str:
    """A value of a metric as tables show it."""
    if value is None or math.isnan(value):
        return ""
    return f"{measure.scale * value:{'+' if signed else ''}.{measure.digits}f}".replace("-", "−")


def probability(p: float) -> str:
    """Formatted as .004, .25, 1 or < .001."""
    if p < 0.001:
        return "< .001"
    return f"{p:.2g}".removeprefix("0") if p < 1 else "1"


def says(one: Comparison, measure: Measure) -> str:
    """One sentence: the observed difference, and the conclusion that the test supports."""
    where = f"{one.variant} and {one.baseline} on {one.task}"
    if one.verdict in ("better", "worse"):
        assert one.adjusted is not None
        size = number(abs(one.difference.value or 0.0), measure)
        return (
            f"{one.variant} is {one.verdict} than {one.baseline} on {one.task} by {size} ({measure.says}"
            f"{_interval_text(one, measure)}); significant, p {_p_text(one.adjusted)} after Holm's correction for "
            f"{count_of(one.comparisons, 'comparison')}, {one.seeds} seeds."
        )
    signed = number(one.difference.value, measure, True)  # no word states the direction, so the sign does
    seen = (
        f"in the mean of {count_of(one.seeds, 'seed')} the difference is {signed} ({measure.says}"
        f"{_interval_text(one, measure, True)})"
    )
    if one.verdict == "not tested":
        return f"{where}: {seen}; this metric was not tested."
    if one.verdict == "underpowered":
        needed = seeds_for(one.comparisons, one.alpha)
        more = "compare fewer variants" if needed is None else f"it takes {needed} seeds"
        return (
            f"{where}: this study is underpowered. {seen[0].upper()}{seen[1:]}; the smallest p it can reach is "
            f"{probability(smallest_p(one.seeds, one.comparisons))}: {more}."
        )
    assert one.adjusted is not None
    return (
        f"No significant difference between {where}: {seen}, p {_p_text(one.adjusted)} after correction. "
        f"A difference of {number(one.visible, measure)} would have been detected with power .8."
    )


def unequal(results: Results, task: str, baseline: str) -> str:
    """A sentence on variants whose number of parameters is not that of the baseline; "" if all are equal."""
    counts = results.parameters.get(task, {})
    base = counts.get(baseline)
    other = {name: count for name, count in counts.items() if name in results.variants and base and count != base}
    if not base or not other:
        return ""
    listed = ", ".join(f"{name} {_percent(count / base - 1)}" for name, count in other.items())
    return f"Parameter counts differ on {task}: compared with {baseline} ({base:,}), {listed}."


def below_trivial(results: Results, task: str, metric: str | None = None) -> tuple[str, float, list[str]] | None:
    """The best trivial baseline of a task, its value, and the variants whose mean is not above it; None without one.

    A variant is compared over the seeds that both have; a baseline of one seed stands for all.
    """
    metric = metric or results.main(task)
    sign = 1.0 if results.measures[task][metric].higher else -1.0
    found: dict[str, dict[int, float]] = {}
    for row in results.trivial:
        if (row.task, row.metric) == (task, metric) and row.value is not None:
            found.setdefault(row.variant, {})[row.seed] = row.value
    if not found:
        return None
    name = max(found, key=lambda one: sign * float(np.mean(list(found[one].values()))))
    best, below = found[name], []
    for variant in results.variants:
        values = results.values(task, variant, metric)
        shared = [seed for seed in values if seed in best] if len(best) > 1 else list(values)
        reference = [best[seed] for seed in shared] if len(best) > 1 else list(best.values())
        if shared and sign * float(np.mean([values[seed] for seed in shared])) <= sign * float(np.mean(reference)):
            below.append(variant)
    return name, float(np.mean(list(best.values()))), below


def _interval_text(one: Comparison, measure: Measure, signed: bool = False) -> str:
    """The interval of the difference; unless signed, of its size, in the direction of the sentence."""
    if one.difference.interval is None or one.difference.value is None:
        return ""
    low, high = one.difference.interval
    if not signed and one.difference.value < 0:
        low, high = -high, -low
    return f", interval {number(low, measure, signed)} to {number(high, measure, signed)}"


def _percent(more: float) -> str:
    """+84 %; small percentages get two digits, so that none is rounded to 0."""
    digits = 0 if abs(more) >= 0.005 else 2
    return f"{100 * more:+.{digits}f} %".replace("-", "−")


def _p_text(p: float) -> str:
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"
