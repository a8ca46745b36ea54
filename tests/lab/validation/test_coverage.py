"""The table of coverage: shares by enumeration, and what its rows say of few instances."""

import json

import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.lab.validation import coverage

pytest.importorskip("scipy")


def test_shares_hold_at_every_p():
    assert all(one.held and one.ours >= 0.95 for one in coverage.shares())


def test_a_row_below_the_fewest_instances_has_no_bar(monkeypatch):
    monkeypatch.setattr(coverage, "SIZES", (8, 30))
    rows = {one.name: one for one in coverage.means(40)}
    few, enough = rows["lognormal, 8 instances"], rows["lognormal, 30 instances"]
    assert few.held is None and "no verdict" in few.bar and enough.held is not None
    assert rows["normal, 8 instances"].held is not None


def test_the_command_prints_every_row(monkeypatch):
    monkeypatch.setattr(coverage, "SIZES", (8,))
    monkeypatch.setattr(coverage, "POPULATIONS", coverage.POPULATIONS[:1])
    ran = CliRunner().invoke(app, ["validate", "coverage", "--trials", "100", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert any("falsely better: normal, 12 instances" in str(one) for one in json.dumps(found).split("},"))
