"""Tables of a study for a terminal: the numbers of each variant, and how they differ from the baseline's."""

import math
import statistics

from rich.table import Table

from regard.models.tasks.experiment import Measure
from regard.studies.results import Results
from regard.studies.statistics import analyse


def means(results: Results, task: str) -> Table:
    """One task: mean and deviation over seeds of every metric, parameters and seconds; what is trivial below."""
    measures, seeds = results.measures[task], len(results.seeds)
    table = Table("variant", title=f"{results.study}, {task}: test, {seeds} seed{'s' * (seeds > 1)}",
                  title_justify="left")  # fmt: skip
    for measure in measures.values():
        table.add_column(measure.says, justify="right")
    table.add_column("parameters", justify="right")
    table.add_column("seconds", justify="right")
    most = results.parameters.get(task, {}).get(results.baseline)
    for variant in results.variants:
        cells = [_cell(list(results.values(task, variant, name).values()), one) for name, one in measures.items()]
        count, seconds = results.parameters.get(task, {}).get(variant), results.seconds.get(task, {}).get(variant)
        table.add_row(variant + " (baseline)" * (variant == results.baseline), *cells, _parameters(count, most),
                      "" if seconds is None else f"{seconds:.1f}")  # fmt: skip
    table.add_section()
    for name in dict.fromkeys(row.variant for row in results.trivial if row.task == task):
        rows = [row for row in results.trivial if (row.task, row.variant) == (task, name)]
        found = {metric: [row.value for row in rows if row.metric == metric and row.value is not None]
                 for metric in measures}  # fmt: skip
        table.add_row(name, *(_cell(found[metric], one) for metric, one in measures.items()), "", "")
    return table


def differences(results: Results) -> Table:
    """Every variant beside the baseline by the main metric of each task: paired, corrected together."""
    found = analyse(results)
    table = Table("task", "variant", "difference", "interval", "p, corrected", "verdict",
                  title=f"{results.study}: beside {found.baseline}", title_justify="left",
                  caption=found.foretold.says, caption_justify="left")  # fmt: skip
    for one in found.comparisons:
        measure = results.measures[one.task][one.metric]
        ends = one.difference.interval
        said = "" if ends is None else f"[{_number(ends[0], measure)}, {_number(ends[1], measure)}]"
        p = "" if one.adjusted is None else f"{one.adjusted:.3g}"
        visible = one.visible
        verdict = one.verdict
        if verdict == "no difference found" and math.isfinite(visible):
            verdict += f" (one of {_number(visible, measure)} would have been)"  # type: ignore[assignment]
        table.add_row(one.task, one.variant, _number(one.difference.value, measure, True), said, p, verdict)
    for task, variant in found.lacking:
        table.add_row(task, variant, "", "", "", "no seed in common with the baseline")
    return table


def _cell(values: list[float], measure: Measure) -> str:
    if not values:
        return ""
    mean = _number(statistics.fmean(values), measure)
    return mean if len(values) == 1 else f"{mean} ± {_number(statistics.stdev(values), measure)}"


def _number(value: float | None, measure: Measure, sign: bool = False) -> str:
    if value is None:
        return ""
    return f"{measure.scale * value:{'+' if sign else ''}.{measure.digits}f}"


def _parameters(count: int | None, baseline: int | None) -> str:
    if count is None:
        return ""
    if not baseline or count == baseline:
        return f"{count:,}"
    return f"{count:,} ({100 * (count / baseline - 1):+.1f} %)"
