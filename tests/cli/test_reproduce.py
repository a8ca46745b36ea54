"""regard reproduce: what was found is printed test by test, and kept."""

import pytest
from typer.testing import CliRunner

pytest.importorskip("scipy")

from regard.cli.app import app
from regard.judging.finding import Finding, from_json


def finding(name, test, **more):
    return Finding(name=name, value=0.311, interval=(0.3, 0.32), n=9, says="So.", better="higher", test=test, **more)


def test_each_test_has_a_table_and_where_all_is_kept_is_told(tmp_path, monkeypatch):
    found = [finding("tau", "correlation", baselines={"published": 0.34, "random": 0.000632}), finding("F1", "uniform")]
    monkeypatch.setattr("regard.lab.reproductions.published.reproduce", lambda out, **_: (out.mkdir(), found)[1])
    ran = CliRunner().invoke(app, ["reproduce", "sst", "--seeds", "1", "--out", str(tmp_path / "again")])
    assert ran.exit_code == 0, ran.output
    assert all(f"{test}: SST over 1 seed" in ran.output for test in ("correlation", "uniform"))
    assert "1 seeds" not in ran.output and "random 0.001" in ran.output
    assert f"Written to {tmp_path / 'again' / 'findings.json'}." in ran.output.replace("\n", "")
    assert from_json((tmp_path / "again" / "findings.json").read_text()) == found


def test_one_seed_cannot_be_compared_with_itself(tmp_path):
    ran = CliRunner().invoke(app, ["reproduce", "sst", "--seeds", "1", "--steps", "seeds", "--out", str(tmp_path)])
    assert ran.exit_code == 1 and "--seeds 2 or more" in ran.output
