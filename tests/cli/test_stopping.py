"""Ctrl-C: a command whose next run goes on says so, one that would begin anew does not; both exit with 130."""

import pytest
from typer.testing import CliRunner

from regard.cli.app import app

SENTENCE = "Stopped; the same command resumes from what is saved."
LONG = {  # what takes long, by the commands that call it
    "reproduce sst --out {}": "regard.lab.reproductions.published.reproduce",
    "judge model -o {}": "regard.cli.inputs.judge_inputs.ready",
    "judge model -o {} --again": "regard.cli.inputs.judge_inputs.ready",
    "train retrieval --small --out {}": "regard.lab.tasks.compare.compare",
    "train retrieval --small": "regard.lab.tasks.compare.compare",
    "people sst --out {}": "regard.lab.data.sst.sst",
    "people sst": "regard.lab.data.sst.sst",
    "people scenes --out {}": "regard.lab.data.eye_tracking.scenes",
    "people movies --out {}": "regard.lab.data.movies.reviews",
    "study run quick --out {}": "regard.studies.run_study.run",
    "train gat --data cora --out {}": "regard.lab.data.planetoid.planetoid",
}
BEGIN_ANEW = {"judge model -o {} --again", "train retrieval --small", "people sst", "train gat --data cora --out {}"}


@pytest.mark.parametrize("command", LONG)
def test_what_comes_of_ctrl_c_is_told_where_what_is_done_is_kept(command, tmp_path, monkeypatch):
    pytest.importorskip("scipy")
    pytest.importorskip("pydantic")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LONG[command], stopped)
    said = CliRunner().invoke(app, command.format(tmp_path / "out").split())
    assert said.exit_code == 130 and said.stdout == ""
    assert (SENTENCE in said.stderr) == (command not in BEGIN_ANEW), said.stderr
