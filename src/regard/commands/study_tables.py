"""What a study found, in a terminal: its sheets as tables, its comparisons as sentences."""

from collections.abc import Iterator

from rich.table import Table

from regard.studies.report import Sheet, comparison_sheet, means_sheet, says
from regard.studies.results import Results
from regard.studies.statistics import Analysis, analyse


def told(results: Results, baseline: str | None = None) -> "Iterator[Table | str]":
    """Tables by task, differences, then a sentence for each comparison and for what is not equal or missing."""
    if not all(results.measures[task] for task in results.tasks):
        yield "There is no number yet."
    elif len(results.variants) > 1:
        found = analyse(results, baseline)
        for task in results.tasks:
            yield drawn(means_sheet(found, task))
        yield drawn(comparison_sheet(found))
        for one in found.comparisons:
            yield says(one, results.measures[one.task][one.metric])
        yield found.foretold.says
        yield from _parameters(found)
    else:
        for task in results.tasks:
            for metric in results.measures[task]:
                values = results.values(task, results.variants[0], metric)
                yield f"{task}, {results.variants[0]}, {metric}: {', '.join(f'{x:.4g}' for x in values.values())}"
    for lost in results.missing[:10]:
        yield f"Missing: {lost.task}, {lost.variant}, seed {lost.seed}: {lost.why}"
    if len(results.missing) > 10:
        yield f"... and {len(results.missing) - 10} more are missing."


def drawn(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left")
    for place, name in enumerate(sheet.columns):
        table.add_column(name, justify="left" if place < sheet.named else "right")
    for place, row in enumerate(sheet.rows):
        if place in sheet.ruled:
            table.add_section()
        table.add_row(*row)
    return table


def _parameters(found: Analysis) -> Iterator[str]:
    """Steps are equal; what is trained in them may not be, and then it is told."""
    for task, counts in found.results.parameters.items():
        base = counts.get(found.baseline)
        other = {name: count for name, count in counts.items() if base and count != base}
        if other and base:
            listed = ", ".join(f"{name} {100 * (count / base - 1):+.0f} %" for name, count in other.items())
            yield f"Parameters are not equal on {task}: beside {found.baseline} with {base:,}, {listed}."
