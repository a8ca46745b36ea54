"""What a study prints fits the terminal of someone who has not made it wide."""

import io

from rich.console import Console
from tests.studies.made import drawn as values
from tests.studies.made import made

from regard.commands.study_tables import drawn
from regard.studies.report import comparison_sheet
from regard.studies.statistics import analyse


def printed(tasks: int, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(drawn(comparison_sheet(analyse(made(values(tasks, 3, 10))))))
    return console.file.getvalue()


def test_no_word_of_the_comparisons_is_cut_in_eighty_columns():
    text = printed(1, 80)
    assert "…" not in text and "task 0 (accuracy, %)" in text.splitlines()[0]
    assert all(word in text for word in ("difference", "corrected", "P(better)"))


def test_several_tasks_are_told_in_the_rows():
    text = printed(2, 120)
    assert "task 0 (accuracy, %)" in text and "task 1 (accuracy, %)" in text and "…" not in text
