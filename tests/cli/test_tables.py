"""A sheet whose cells stay whole is cut between its columns."""

import io

import pytest
from rich.console import Console

from regard.cli.output.tables import table_of, with_whole_cells
from regard.studies.report import Sheet

CELL = "0.50 [0.006, 0.70]"
CURVES = ("GAT", "GATv2", "mean of neighbours (uniform weights)", "GCN", "MLP without edges")
SHEET = Sheet("Range", ("distance in edges", *CURVES), (("2", *[CELL] * 5), ("16", *[CELL] * 5)))


def printed(width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    for part in with_whole_cells(SHEET, width):
        console.print(table_of(part, width))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "tables"), [(40, 5), (80, 2), (100, 2), (140, 1)])
def test_no_interval_is_broken_or_cut_and_every_column_stands_once_beside_the_names(width, tables):
    lines = printed(width)
    assert max(map(len, lines)) <= width and sum("Range" in line for line in lines) == tables
    assert sum(line.count(CELL) for line in lines) == 10 and sum(line.startswith("16 ") for line in lines) == tables
    assert sum("continued" in line for line in lines) == tables - 1
    assert [sum(part.columns.count(name) for part in with_whole_cells(SHEET, width)) for name in CURVES] == [1] * 5
