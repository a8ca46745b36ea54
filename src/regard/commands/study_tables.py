"""What a study found, in a terminal: its sheets as tables, its comparisons as sentences."""

from collections.abc import Iterator
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.table import Table

from regard.studies.report import Sheet, comparison_sheet, means_sheet, says, unequal
from regard.studies.results import Results
from regard.studies.statistics import analyse


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


def drawn(sheet: Sheet) -> Table:
    """A sheet as a table that fits 80 columns: where it is about one task, that stands in the title."""
    if sheet.named > 1 and len({row[0] for row in sheet.rows}) == 1:
        sheet = replace(sheet, title=f"{sheet.title}, {sheet.rows[0][0]}", columns=sheet.columns[1:],
                        rows=tuple(row[1:] for row in sheet.rows), named=sheet.named - 1)  # fmt: skip
    table = Table(title=sheet.title, title_justify="left", box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for place, name in enumerate(sheet.columns):
        words = [word for cell in (name, *(row[place] for row in sheet.rows)) for word in cell.split()]
        table.add_column(name, justify="left" if place < sheet.named else "right", no_wrap=name == "variant",
                         min_width=max(map(len, words)))  # fmt: skip
    for place, row in enumerate(sheet.rows):
        if place in sheet.ruled:
            table.add_section()
        table.add_row(*row)
    return table
