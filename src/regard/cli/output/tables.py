"""Sheets as terminal tables: long titles and names wrap, and nothing is truncated."""

from collections.abc import Iterator
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from regard.studies.report import Sheet

from ..cli_errors import console

GAP = 2  # between columns
NAME = 12  # minimum width of a variant's name before it wraps within a word


def table_console() -> Console:
    """The console for sheets: the width of the terminal, or whole lines into a pipe."""
    wide = console()
    return wide if wide.is_terminal else console(width=400)


def table_of(sheet: Sheet, width: int) -> Table:
    table = Table(
        title=sheet.title,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0, 0, GAP - 1),
    )
    for place, (name, wide) in enumerate(zip(sheet.columns, _widths(sheet, width), strict=True)):
        table.add_column(name, justify="left" if place < sheet.named else "right", width=wide, overflow="fold")
    for place, row in enumerate(sheet.rows):
        if place in sheet.ruled:
            table.add_section()
        table.add_row(*row)
    return table


def with_whole_cells(sheet: Sheet, width: int) -> Iterator[Sheet]:
    """Split into sheets of as many columns as fit without wrapping, each with the row names."""
    _, flat = _bounds(sheet)
    begin, wide = sheet.named, 0
    names = sum(flat[: sheet.named]) + GAP * (sheet.named - 1)
    for at in range(sheet.named, len(flat)):
        if wide and names + wide + GAP + flat[at] > width:
            yield _columns(sheet, begin, at)
            begin, wide = at, 0
        wide += GAP + flat[at]
    yield _columns(sheet, begin, len(flat))


def _columns(sheet: Sheet, begin: int, end: int) -> Sheet:
    chosen = [*range(sheet.named), *range(begin, end)]
    title = sheet.title if begin == sheet.named else f"{sheet.title}, continued"
    return replace(
        sheet,
        title=title,
        columns=tuple(sheet.columns[at] for at in chosen),
        rows=tuple(tuple(row[at] for at in chosen) for row in sheet.rows),
    )


def _widths(sheet: Sheet, width: int) -> list[int]:
    """Column widths. If space is short, titles wrap first, then trivial baselines, then the rest, between words;
    names of variants last, within words."""
    least, flat = _bounds(sheet)
    widths = [max(map(len, cells)) for cells in zip(sheet.columns, *sheet.rows, strict=True)]
    for bound in (flat, [least[0], *flat[1:]], least, [min(least[0], NAME), *least[1:]]):
        while sum(widths) + GAP * (len(widths) - 1) > width and widths != bound:
            spare = [wide - few for wide, few in zip(widths, bound, strict=True)]
            widths[spare.index(max(spare))] -= 1
    return widths


def _bounds(sheet: Sheet) -> tuple[list[int], list[int]]:
    """Minimum column widths without broken words and row names; and without wrapped cells below the title."""
    whole = min(sheet.ruled, default=len(sheet.rows))  # trivial baselines are below
    columns = list(zip(sheet.columns, *sheet.rows, strict=True))
    least = [max(len(word) for cell in cells for word in cell.split()) for cells in columns]
    least[0] = max([least[0], *map(len, columns[0][1 : whole + 1])])
    return least, [max([few, *map(len, cells[1:])]) for few, cells in zip(least, columns, strict=True)]
