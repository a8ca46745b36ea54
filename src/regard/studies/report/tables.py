"""The tables of a study: numbers for files, formatted text for pages and papers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.models.training.experiment import Measure

from ..results import Results
from ..statistics import Analysis, Comparison
from .wording import number, probability

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Sheet:
    """A formatted table: the first `named` columns are text, the rest numbers; a rule above the rows in `ruled`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    named: int = 1
    ruled: tuple[int, ...] = ()


def means_rows(found: Analysis) -> Rows:
    """One row for each task, variant and metric, trivial baselines included."""
    results, made = found.results, []
    for task in results.tasks:
        for metric in results.measures[task]:
            for variant in results.variants:
                values = list(results.values(task, variant, metric).values())
                made.append(
                    {
                        "task": task,
                        "variant": variant,
                        "metric": metric,
                        "trivial": False,
                        **_spread(values),
                        "parameters": results.parameters.get(task, {}).get(variant),
                        "seconds": results.seconds.get(task, {}).get(variant),
                    }
                )
            for name, values in _trivial(found, task, metric).items():
                made.append(
                    {
                        "task": task,
                        "variant": name,
                        "metric": metric,
                        "trivial": True,
                        **_spread(values),
                        "parameters": None,
                        "seconds": None,
                    }
                )
    return made


def comparison_rows(found: Analysis) -> Rows:
    """One row for each comparison, with all numbers that its sentence states."""
    return [_row(one) for one in (*found.comparisons, *found.others)]


def means_sheet(found: Analysis, task: str) -> Sheet:
    """Mean and standard deviation over seeds of every metric; trivial baselines below a rule."""
    results, measures = found.results, found.results.measures[task]
    columns = ("variant", *(one.says for one in measures.values()), "parameters", "seconds a run")
    rows = []
    for variant in results.variants:
        cells = [_cell(list(results.values(task, variant, name).values()), one) for name, one in measures.items()]
        count, seconds = (table.get(task, {}).get(variant) for table in (results.parameters, results.seconds))
        rows.append(
            (
                variant + " (baseline)" * (variant == found.baseline),
                *cells,
                f"{count:,}" if count else "",
                "" if seconds is None else f"{seconds:.1f}",
            )
        )
    first = len(rows)
    names = dict.fromkeys(name for metric in measures for name in _trivial(found, task, metric))
    for name in names:
        cells = [_cell(_trivial(found, task, metric).get(name, []), one) for metric, one in measures.items()]
        rows.append((name, *cells, "", ""))
    seeds = len(results.seeds)
    title = f"{results.study}, {task}: mean and deviation over {seeds} seed{'s' * (seeds != 1)}"
    return Sheet(title, columns, tuple(rows), ruled=(first,) if names else ())


def comparison_sheet(found: Analysis) -> Sheet:
    """Every variant compared with the baseline, by the main metric of each task."""
    columns = ("task", "variant", "difference", "interval", "Hedges' g", "P(better)", "p, corrected", "verdict")
    rows = []
    for one in found.comparisons:
        measure = found.results.measures[one.task][one.metric]
        g = "" if one.effect is None else f"{one.effect.g:.2f}".replace("-", "−")
        rows.append(
            (
                f"{one.task} ({measure.says})",
                one.variant,
                number(one.difference.value, measure, True),
                _interval(one, measure),
                g,
                f"{one.improvement.value:.2f}",
                probability(one.adjusted or 0.0),
                one.verdict,
            )
        )
    return Sheet(f"{found.results.study}: differences to {found.baseline}", columns, tuple(rows), named=2)


def tuning_sheet(results: Results) -> Sheet:
    """The tuned configuration of each variant of each task; no rows without tuning."""
    rows = []
    for task, chosen in results.tuned.items():
        measure = results.measures[task][results.main(task)]
        for variant, one in chosen.items():
            settings = ", ".join(f"{name} {value}" for name, value in one["configuration"].items())
            value = number(one["validation"], measure)
            rows.append(
                (task, variant, settings or "the task's own", value, str(one["tried"]), f"{one['seconds']:.0f}")
            )
    columns = ("task", "variant", "chosen", "validation", "tried", "seconds")
    return Sheet(f"{results.study}: configurations tuned on the validation part", columns, tuple(rows), named=3)


def _row(one: Comparison) -> dict[str, Any]:
    low, high = one.difference.interval or (None, None)
    chance = one.improvement.interval or (None, None)
    g = one.effect
    return {
        "task": one.task,
        "metric": one.metric,
        "variant": one.variant,
        "baseline": one.baseline,
        "seeds": one.seeds,
        "mean": one.means[0],
        "baseline_mean": one.means[1],
        "difference": one.difference.value,
        "low": low,
        "high": high,
        "resampled": one.resampled,
        "deviation": one.deviation,
        "hedges_g": None if g is None else g.g,
        "hedges_g_low": None if g is None or g.interval is None else g.interval[0],
        "hedges_g_high": None if g is None or g.interval is None else g.interval[1],
        "improvement": one.improvement.value,
        "improvement_low": chance[0],
        "improvement_high": chance[1],
        "p": one.p,
        "p_corrected": one.adjusted,
        "comparisons": one.comparisons if one.p is not None else None,
        "smallest_visible": one.visible if one.p is not None else None,
        "verdict": one.verdict,
    }


def _trivial(found: Analysis, task: str, metric: str) -> dict[str, list[float]]:
    made: dict[str, list[float]] = {}
    for row in found.results.trivial:
        if (row.task, row.metric) == (task, metric) and row.value is not None:
            made.setdefault(row.variant, []).append(row.value)
    return made


def _spread(values: list[float]) -> dict[str, Any]:
    return {
        "seeds": len(values),
        "mean": float(np.mean(values)) if values else None,
        "deviation": float(np.std(values, ddof=1)) if len(values) > 1 else None,
    }


def _cell(values: list[float], measure: Measure) -> str:
    spread = _spread(values)
    if spread["deviation"] is None:
        return number(spread["mean"], measure)
    return f"{number(spread['mean'], measure)} ± {number(spread['deviation'], measure)}"


def _interval(one: Comparison, measure: Measure) -> str:
    if one.difference.interval is None:
        return ""
    low, high = one.difference.interval
    return f"{number(low, measure, True)} to {number(high, measure, True)}"
