"""Results of training as terminal tables: networks over seeds, attention and its baselines."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from regard.core.plural import count_of

if TYPE_CHECKING:
    from regard.lab.tasks.compare import TaskComparison
    from regard.lab.tasks.graphs.node_accuracy import Accuracy
    from regard.models.training.experiment import Measure


def accuracy_table(
    title: str, found: "Sequence[Accuracy]", says: Mapping[str, str], column: str, cell: "Callable[[Accuracy], str]"
) -> Table:
    """One row for each network, with one column that depends on the data set."""
    table = Table(title=title)
    table.add_column("network")
    for name in ("mean ± deviation", "lowest", "highest", column, "epochs", "seconds"):
        table.add_column(name, justify="right")
    for one in found:
        shares = [100 * run.test for run in one.runs]
        epochs, seconds = (statistics.fmean(x) for x in zip(*((r.epochs, r.seconds) for r in one.runs), strict=True))
        table.add_row(
            says[one.kind],
            f"{one.mean:.1f} ± {one.deviation:.1f}",
            f"{min(shares):.1f}",
            f"{max(shares):.1f}",
            cell(one),
            f"{epochs:.0f}",
            f"{seconds:.1f}",
        )
    return table


def beside_the_paper(one: "Accuracy") -> str:
    if one.paper is None:
        return ""
    return f"{one.paper[0]:.1f} ± {one.paper[1]:.1f}, {'reached' if one.reached else 'not reached'}"


def on_validation(one: "Accuracy") -> str:
    return f"{100 * statistics.fmean(run.val for run in one.runs):.1f}"


def comparison_tables(found: "TaskComparison") -> list[Table]:
    """Metrics; and the main metric by input length, if available."""
    measures, seeds = found.experiment.measures, len(found.rows[0].results)
    small = ", small setting" if found.experiment.small else ""
    table = Table(title=f"{found.task}: test, {count_of(seeds, 'seed')}{small}")
    table.add_column("attention", overflow="fold")
    for measure in measures.values():
        table.add_column(measure.says, justify="right")
    table.add_column("epochs", justify="right")
    table.add_column("seconds a run", justify="right")
    for row in found.rows:
        cells = [_cell(row.values(name), measure) for name, measure in measures.items()]
        table.add_row(
            row.says,
            *cells,
            f"{statistics.fmean(one.epochs for one in row.trained):.0f}",
            f"{statistics.fmean(one.seconds for one in row.trained):.1f}",
        )
    table.add_section()
    for row in found.baselines:
        table.add_row(row.says, *(_cell(row.values(name), measure) for name, measure in measures.items()), "", "")
    made = [table]
    bins = list(dict.fromkeys(key for row in found.rows for result in row.results for key in result.lengths))
    if bins:
        main = measures[found.experiment.main]
        other = Table(title=f"{found.task}: {main.says} by length of the input")
        other.add_column("attention", overflow="fold")
        for name in sorted(bins, key=lambda name: int(name.partition("-")[0])):
            other.add_column(name, justify="right")
        for row in found.rows:
            values: Sequence[list[float]] = [
                [result.lengths[name] for result in row.results if name in result.lengths]
                for name in sorted(bins, key=lambda name: int(name.partition("-")[0]))
            ]
            other.add_row(row.says, *(_cell(value, main) for value in values))
        made.append(other)
    return made


def _cell(values: Sequence[float], measure: "Measure") -> str:
    if not values:
        return ""
    mean = f"{measure.scale * statistics.fmean(values):.{measure.digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {measure.scale * statistics.stdev(values):.{measure.digits}f}"
