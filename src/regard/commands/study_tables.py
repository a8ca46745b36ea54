"""What a study found, in a terminal: its sheets as tables, its comparisons as sentences."""

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.table import Table

from regard.studies.report import Sheet, comparison_sheet, means_sheet, says, unequal
from regard.studies.results import Results
from regard.studies.statistics import analyse

GAP = 2  # between columns
NAME = 12  # letters of a variant's name that stand in one line, whatever happens


def told(results: Results, room: int) -> "Iterator[Table | str]":
    """Tables by task, differences, then a sentence for each comparison and for what is not equal or missing."""
    if not all(results.measures[task] for task in results.tasks):
        yield "There is no number yet."
    elif len(results.variants) > 1:
        found = analyse(results)
        begun = {row.task for row in results.rows}  # the others are among what is missing
        for task in filter(begun.__contains__, results.tasks):
            yield from drawn(means_sheet(found, task), room)
        yield from drawn(comparison_sheet(found), room)
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


def drawn(sheet: Sheet, room: int) -> Iterator[Table]:
    """A sheet as tables of so many columns of a terminal: one for each task, which stands in the title."""
    if sheet.named == 1:
        yield _table(sheet, room)
        return
    for task in dict.fromkeys(row[0] for row in sheet.rows):
        rows = tuple(row[1:] for row in sheet.rows if row[0] == task)
        yield _table(Sheet(f"{sheet.title}, {task}", sheet.columns[1:], rows), room)


def _table(sheet: Sheet, room: int) -> Table:
    table = Table(title=sheet.title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False,
                  padding=(0, 0, 0, GAP - 1))  # fmt: skip
    for place, (name, width) in enumerate(zip(sheet.columns, _widths(sheet, room), strict=True)):
        table.add_column(name, justify="left" if place < sheet.named else "right", width=width,
                         overflow="fold")  # fmt: skip
    for place, row in enumerate(sheet.rows):
        if place in sheet.ruled:
            table.add_section()
        table.add_row(*row)
    return table


def _widths(sheet: Sheet, room: int) -> list[int]:
    """Of columns. Where there is no room, titles are folded, then names of what is trivial, then the rest, between
    words; the name of a variant last of all, and then within a word."""
    whole = min(sheet.ruled, default=len(sheet.rows))  # below it stands what is trivial
    columns = list(zip(sheet.columns, *sheet.rows, strict=True))
    least = [max(len(word) for cell in cells for word in cell.split()) for cells in columns]
    least[0] = max(least[0], *map(len, columns[0][: whole + 1]))
    flat = [max([few, *map(len, cells[1:])]) for few, cells in zip(least, columns, strict=True)]
    widths = [max(map(len, cells)) for cells in columns]
    for bound in (flat, [least[0], *flat[1:]], least, [min(least[0], NAME), *least[1:]]):
        while sum(widths) + GAP * (len(widths) - 1) > room and widths != bound:
            spare = [wide - few for wide, few in zip(widths, bound, strict=True)]
            widths[spare.index(max(spare))] -= 1
    return widths
