"""What a study prints fits the terminal of someone who has not made it wide."""

import io

from rich.console import Console
from tests.studies.made import drawn as values
from tests.studies.made import made

from regard.cli.output.study_tables import fitted_tables
from regard.studies.report import Sheet, comparison_sheet
from regard.studies.statistics import analyse


def printed(sheet: Sheet, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO())
    for table in fitted_tables(sheet, width):
        console.print(table)
    return console.file.getvalue()


def comparisons(tasks: int) -> str:
    return printed(comparison_sheet(analyse(made(values(tasks, 3, 10)))))


def test_no_word_of_the_comparisons_is_cut_in_eighty_columns():
    text = comparisons(1)
    assert "…" not in text and "task 0 (accuracy, %)" in text.splitlines()[0]
    assert all(word in text for word in ("difference", "corrected", "P(better)", "verdict"))


def test_each_task_has_a_table_and_its_verdicts_are_whole():
    text = comparisons(2)
    titles = [line for line in text.splitlines() if "(accuracy, %)" in line]
    assert len(titles) == 2 and "task 0" in titles[0] and "task 1" in titles[1] and "…" not in text
    assert text.count("verdict") == 2


def test_long_names_of_what_is_trivial_are_folded_and_nothing_is_cut():
    cells = ("3.174 ± 1.191", "0.098 ± 0.386", "0.394 ± 0.067", "66,721", "14.2")
    rows = (("gcn (baseline)", *cells), ("means of drugs and cell lines", *cells[:3], "", ""))
    columns = ("variant", "RMSE of ln IC50", "Pearson", "Pearson within a drug", "parameters", "seconds a run")
    text = printed(Sheet("drugs", columns, rows, ruled=(1,)))
    assert "…" not in text and "gcn (baseline)" in text and max(map(len, text.splitlines())) <= 80
    assert set(text.split()) >= {word for row in (columns, *rows) for cell in row for word in cell.split()}


def test_a_long_name_of_a_variant_takes_two_lines_before_a_column_is_cut():
    cells = ("−10.0", "−21.3 to −0.4", "−1.17", "0.12", ".027", "no significant difference")
    columns = ("variant", "difference", "interval", "Hedges' g", "P(better)", "p, corrected", "verdict")
    text = printed(Sheet("texts", columns, (("scaled_dot+sparsemax", *cells),)))
    assert "…" not in text and "scaled_dot+" in text and max(map(len, text.splitlines())) <= 80
    assert set(text.split()) >= {word for cell in (*columns, *cells) for word in cell.split()}
