"""Tables in three forms: what stands in them is what was measured, and no name breaks them."""

import csv
import io

import numpy as np
import pytest
from tests.studies.made import drawn, made

from regard.studies.report import comparison_rows, comparison_sheet, csv_text, latex, markdown, means_rows, means_sheet
from regard.studies.report.formats import escaped
from regard.studies.report.tables import Sheet
from regard.studies.statistics import analyse

NASTY = r"a_b & 50% | {x} \n $y$ #1 ~^ <t>"


def test_means_stand_in_the_sheet_as_they_were_measured():
    values = drawn(1, 3, 8)
    sheet = means_sheet(analyse(made(values, trivial=0.5)), "task 0")
    cells = dict(zip(sheet.columns, sheet.rows[1], strict=True))
    assert cells["variant"] == "gat" and cells["parameters"] == "12,345"
    mean, deviation = map(float, cells["accuracy, %"].split(" ± "))
    assert mean == pytest.approx(100 * values[0, 1].mean(), abs=0.05)
    assert deviation == pytest.approx(100 * values[0, 1].std(ddof=1), abs=0.05)
    assert sheet.rows[0][0] == "mean (baseline)" and sheet.rows[3][:2] == ("most frequent", "50.0")
    assert sheet.ruled == (3,)


def test_a_csv_file_gives_every_number_back():
    found = analyse(made(drawn(2, 3, 8)))
    read = list(csv.DictReader(io.StringIO(csv_text(comparison_rows(found)))))
    assert len(read) == 4
    for row, one in zip(read, found.comparisons, strict=True):
        assert (row["task"], row["variant"], row["verdict"]) == (one.task, one.variant, one.verdict)
        assert float(row["difference"]) == one.difference.value and float(row["p_corrected"]) == one.adjusted
        assert (float(row["low"]), float(row["high"])) == one.difference.interval
    means = list(csv.DictReader(io.StringIO(csv_text(means_rows(found)))))
    assert float(means[1]["mean"]) == pytest.approx(
        np.mean(list(found.results.values("task 0", "gat", "accuracy").values()))
    )


def test_few_seeds_leave_the_place_of_an_interval_empty():
    found = analyse(made(drawn(1, 2, 3)))
    assert comparison_sheet(found).rows[0][3] == "" and comparison_rows(found)[0]["low"] is None


def test_no_name_breaks_a_table():
    sheet = Sheet(NASTY, ("variant", "x"), ((NASTY, "1.0 ± 0.2"), ("line\nbreak", "−3")), ruled=(1,))
    lines = markdown(sheet).splitlines()
    assert len(lines) == 4 and all(line.replace("\\|", "").count("|") == 3 for line in lines)
    made_ = latex(sheet)
    body = made_.partition(r"\toprule")[2]
    assert body.count(r"\\" + "\n") == 3 and body.count(" & ") == 3 and r"1.0 $\pm$ 0.2" in body and "$-$3" in body
    assert made_.splitlines()[0].startswith("% ") and made_.count(r"\midrule") == 2
    plain = escaped(NASTY)
    for letter, written in (("&", r"\&"), ("%", r"\%"), ("#", r"\#"), ("_", r"\_"), ("{", r"\{")):
        assert plain.count(written) == NASTY.count(letter)


def test_a_name_that_a_spreadsheet_would_run_is_text():
    text = csv_text([{"variant": "=HYPERLINK(1)", "mean": -0.5, "deviation": float("nan")}])
    assert text == "variant,mean,deviation\n'=HYPERLINK(1),-0.5,\n"
