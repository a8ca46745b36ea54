"""Claims as figures and tables: what is printed is what was found."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from regard.judging import Finding
from regard.lab.claims import Claim, Curve, Panel
from regard.lab.claims.figures import cell, claim_figure, claim_markdown, claim_sheets, draw_panel


def found(value, low=None, high=None):
    return Finding("x", value, "It is so.", "higher", 5, interval=None if low is None else (low, high))


CURVES = (Curve("GAT", (found(0.5, 0.4, 0.7), found(0.25, 0.2, 0.3))), Curve("mean", (found(0.5), None)))
NUMBERS = Panel("By depth", "layers", "accuracy", (1, 4), CURVES, log="x", limit=("chance", 0.5), note="Read it well.")
NAMES = Panel("By graph", "graph", "accuracy", ("cora", "acm"), CURVES)
CLAIM = Claim("range", "It sees far.", ("It does not.",), (NUMBERS, NAMES, NAMES), 6, {"width": 16}, ("acm: no file",))


def test_a_cell_has_its_interval_and_what_is_missing_is_a_dash():
    assert cell(found(0.5, 0.4, 0.7)) == "0.50 [0.40, 0.70]" and cell(found(0.5)) == "0.50"
    assert cell(None) == cell(found(None)) == "-" and cell(found(0.0)) == "0.00"


def test_small_numbers_are_plain_decimals_or_said_to_be_smaller_than_one():
    assert cell(found(0.0096)) == "0.01" and cell(found(-0.0064)) == "-0.006" and cell(found(0.0001)) == "0.0001"
    assert cell(found(4e-5, -4e-5, 0.0004)) == "<0.0001 [>-0.0001, 0.0004]" and cell(found(1e-17)) == "0.00"


def test_tables_have_a_row_for_each_place_and_a_column_for_each_curve():
    sheet = claim_sheets(CLAIM)[0]
    assert sheet.columns == ("layers", "GAT", "mean") and [row[2] for row in sheet.rows] == ["0.50", "-"]
    assert sheet.title == "By depth · accuracy"
    same = replace(CLAIM, panels=(replace(NAMES, title="Fresh networks: accuracy"),))
    assert claim_sheets(same)[0].title == "Fresh networks: accuracy"  # not said twice
    page = claim_markdown(CLAIM)
    assert "| 1 | 0.50 [0.40, 0.70] | 0.50 |\n| 4 | 0.25 [0.20, 0.30] | - |\n\nRead it well." in page
    assert page.count("**By graph**") == 2 and "| cora |" in page and page.endswith("\n\n- It does not.\n")


def test_bars_are_the_intervals_and_names_stand_side_by_side():
    ax = Figure().add_subplot()
    draw_panel(NUMBERS, ax)
    bars = ax.containers[0]
    assert bars[0].get_xydata().tolist() == [[1, 0.5], [4, 0.25]] and ax.get_xscale() == "log"
    low, high = bars[2][0].get_segments()[0]
    assert (low[1], high[1]) == pytest.approx((0.4, 0.7))
    ax = Figure().add_subplot()
    draw_panel(NAMES, ax)
    places = [line.get_xydata()[0, 0] for line in (container[0] for container in ax.containers)]
    assert places[0] < 0 < places[1] and [x.get_text() for x in ax.get_xticklabels()] == ["cora", "acm"]


def test_a_claim_is_one_figure_and_its_findings_are_those_of_its_curves(tmp_path):
    path = claim_figure(CLAIM, tmp_path / "range.svg")
    assert path.read_text().count("By graph") == 2
    assert len(CLAIM.findings) == 3 * 3 and NUMBERS.at("GAT", 4).value == 0.25
    with pytest.raises(KeyError, match="not measured"):
        NUMBERS.at("mean", 4)
    assert Claim.from_dict(json.loads(json.dumps(CLAIM.as_dict()))) == CLAIM
    first = CLAIM.as_dict()["panels"][0]
    assert first["curves"]["mean"][1] is None and first["limit"] == {"name": "chance", "value": 0.5}
