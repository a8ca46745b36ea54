"""The results of a study in a terminal: tables, and comparisons as sentences."""

from collections.abc import Iterator

from rich.table import Table

from regard.studies.report import Sheet, comparison_sheet, means_sheet, says, tuning_sheet, unequal
from regard.studies.results import Results
from regard.studies.statistics import analyse

from .tables import table_of


def result_tables(results: Results, columns: int) -> "Iterator[Table | str]":
    """Tables of means and differences, then sentences on comparisons, parameter counts and missing trials."""
    if not all(results.measures[task] for task in results.tasks):
        yield "There are no results yet."
    elif len(results.variants) > 1:
        found = analyse(results)
        started = {row.task for row in results.rows}  # the trials of other tasks are listed as missing
        for task in filter(started.__contains__, results.tasks):
            yield from fitted_tables(means_sheet(found, task), columns)
        yield from fitted_tables(comparison_sheet(found), columns)
        if results.tuned:
            yield from fitted_tables(tuning_sheet(results), columns)
        for one in found.comparisons:
            yield says(one, results.measures[one.task][one.metric])
        yield found.power.says
        yield from filter(None, (unequal(results, task, found.baseline) for task in results.tasks))
    else:
        for task in results.tasks:
            for metric in results.measures[task]:
                values = results.values(task, results.variants[0], metric)
                yield f"{task}, {results.variants[0]}, {metric}: {', '.join(f'{x:.4g}' for x in values.values())}"
    for lost in results.missing[:10]:
        yield f"Missing: {lost.task}, {lost.variant}, seed {lost.seed}: {lost.why}"
    if len(results.missing) > 10:
        yield f"... and {len(results.missing) - 10} more are missing."


def fitted_tables(sheet: Sheet, columns: int) -> Iterator[Table]:
    """A sheet as tables that fit a terminal of so many columns: one for each task, named in the title."""
    if sheet.named == 1:
        yield table_of(sheet, columns)
        return
    for task in dict.fromkeys(row[0] for row in sheet.rows):
        rows = tuple(row[1:] for row in sheet.rows if row[0] == task)
        yield table_of(Sheet(f"{sheet.title}, {task}", sheet.columns[1:], rows), columns)
