"""regard validate, as someone types it: a table of judges, and of reports of nothing."""

import json

import pytest
from typer.testing import CliRunner

from regard.cli.app import app

pytest.importorskip("sklearn")


def call(*arguments):
    return CliRunner(env={"COLUMNS": "140"}).invoke(app, ["validate", *map(str, arguments)])


def test_judges_are_a_table_of_the_terminal_and_of_the_docs_and_a_file_that_reports_read(tmp_path):
    said = call("models", "--instances", 12, "--only", "bottleneck, uniform, decorative", "-o", tmp_path / "found")
    assert said.exit_code == 0, said.output
    assert "comprehensiveness of attention" in said.stdout and "Not on this evidence" in said.stdout
    page = (tmp_path / "found" / "models.md").read_text()
    assert page.startswith("| measure | AUROC |") and "| uniform | no |" in page
    found = json.loads((tmp_path / "found" / "models.json").read_text())
    truth = {one["model"]: one["faithful"] for one in found["models"]}
    assert truth == {"bottleneck": True, "uniform": False, "decorative": False}
    best = {one["measure"]: one["auroc"] for one in found["judges"]}
    known = json.loads((tmp_path / "found" / "validity.json").read_text())
    assert best["comprehensiveness of attention"] == known["comprehensiveness of attention"]["auroc"] == 1


def test_a_model_that_is_not_there_is_told_with_those_that_are():
    said = call("models", "--only", "bottlenek")
    assert said.exit_code == 1 and "no model 'bottlenek': expected some of bottleneck" in said.output


def test_reports_of_nothing_are_counted():
    said = call("null", "--reports", 1, "--instances", 10, "--workers", 1, "--json")
    found = json.loads(said.stdout)
    assert found["reports"] == 1 and said.exit_code == (0 if found["false"] == 0 else 1)
    assert set(found["tried"].values()) == {1} and set(found["verdicts"]) <= set(found["tried"])
