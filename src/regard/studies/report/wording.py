"""Sentences about a comparison. None says more than its test: what was not found may be there all the same."""

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
    """.004, .25, 1; what is smaller than .001 is told as such."""
    if p < 0.001:
        return "< .001"
    return f"{p:.2g}".removeprefix("0") if p < 1 else "1"


def says(one: Comparison, measure: Measure) -> str:
    """One sentence: what was seen, and what the test lets one say of it."""
    where = f"{one.variant} and {one.baseline} on {one.task}"
    if one.verdict in ("better", "worse"):
        assert one.adjusted is not None
        size = number(abs(one.difference.value or 0.0), measure)
        return (
            f"{one.variant} is {one.verdict} than {one.baseline} on {one.task} by {size} ({measure.says}"
            f"{_ends(one, measure)}); significant, p {_is(one.adjusted)} after Holm's correction for "
            f"{count_of(one.comparisons, 'comparison')}, {one.seeds} seeds."
        )
    signed = number(one.difference.value, measure, True)  # no word tells the direction, so the sign of the table does
    seen = (
        f"in the mean of {count_of(one.seeds, 'seed')} the difference is {signed} ({measure.says}"
        f"{_ends(one, measure, True)})"
    )
    if one.verdict == "not tested":
        return f"{where}: {seen}; this metric was not tested."
    if one.verdict == "cannot be told":
        needed = seeds_for(one.comparisons, one.alpha)
        more = "compare fewer variants" if needed is None else f"it takes {needed} seeds"
        return (
            f"{where} cannot be distinguished by this study: {seen}, and its smallest p is "
            f"{probability(smallest_p(one.seeds, one.comparisons))}; {more}."
        )
    assert one.adjusted is not None
    return (
        f"No difference found between {where}: {seen}, p {_is(one.adjusted)} after correction. A difference of "
        f"{number(one.visible, measure)} would have been found with a chance of .8."
    )


def unequal(results: Results, task: str, baseline: str) -> str:
    """Every variant spends the same steps; where what is trained in them is not equal, a sentence says by how much."""
    counts = results.parameters.get(task, {})
    base = counts.get(baseline)
    other = {name: count for name, count in counts.items() if name in results.variants and base and count != base}
    if not base or not other:
        return ""
    listed = ", ".join(f"{name} {_share(count / base - 1)}" for name, count in other.items())
    return f"Parameters are not equal on {task}: beside {baseline} with {base:,}, {listed}."


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
        both = [seed for seed in values if seed in best] if len(best) > 1 else list(values)
        beside = [best[seed] for seed in both] if len(best) > 1 else list(best.values())
        if both and sign * float(np.mean([values[seed] for seed in both])) <= sign * float(np.mean(beside)):
            below.append(variant)
    return name, float(np.mean(list(best.values()))), below


def _ends(one: Comparison, measure: Measure, signed: bool = False) -> str:
    """The interval of the difference; unless signed, of its size, in the direction it was told."""
    if one.difference.interval is None or one.difference.value is None:
        return ""
    low, high = one.difference.interval
    if not signed and one.difference.value < 0:
        low, high = -high, -low
    return f", interval {number(low, measure, signed)} to {number(high, measure, signed)}"


def _share(more: float) -> str:
    """+84 %; what rounds to nothing is told with its digits, since it is not nothing."""
    digits = 0 if abs(more) >= 0.005 else 2
    return f"{100 * more:+.{digits}f} %".replace("-", "−")


def _is(p: float) -> str:
    said = probability(p)
    return said if said.startswith("<") else f"= {said}"
