"""regard train TASK, as someone types it."""

import json

import pytest
from typer.testing import CliRunner

from regard.cli.app import app
from regard.data.registry import TASKS
from regard.models.training.run_checkpoint import run_in


def call(*arguments: str):
    return CliRunner().invoke(app, ["train", *arguments])


def test_every_task_has_its_command_with_the_options_that_all_share():
    for name in TASKS:
        said = call(name, "--help")
        assert said.exit_code == 0
        assert all(option in said.output for option in ("--seeds", "--small", "--device", "--attention"))


def test_attention_solves_retrieval_and_uniform_weights_do_not(tmp_path):
    pytest.importorskip("sklearn")
    said = call("retrieval", "--small", "--seeds", "1", "--out", str(tmp_path / "run"), "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    attention, uniform = (row["runs"][0]["accuracy"] for row in found["rows"])
    chance = found["baselines"][0]["runs"][0]["accuracy"]
    assert attention > 0.95 and uniform < chance + 0.1
    assert "above the best trivial baseline" in found["verdict"]
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == found
    again = call("retrieval", "--small", "--seeds", "1", "--out", str(tmp_path / "run"), "--json")
    assert json.loads(again.stdout)["rows"] == found["rows"]  # gone on with, and there was nothing left to do


def test_several_attentions_are_trained_and_each_is_told(tmp_path):
    pytest.importorskip("sklearn")
    asked = ("--attention", "sparsemax", "--attention", "scaled_dot", "--alone")
    said = call("retrieval", "--small", "--seeds", "1", *asked, "--out", str(tmp_path / "run"), "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert [row["says"] for row in found["rows"]] == ["sparsemax", "scaled_dot"]
    for row in found["rows"]:
        assert f"{row['says']} is " in found["verdict"]
    with pytest.raises(ValueError, match=r"name one of .*scaled_dot-0, .*sparsemax-0"):
        run_in(tmp_path / "run")
    assert run_in(tmp_path / "run" / "sparsemax-0") == tmp_path / "run" / "sparsemax-0"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--attention", "telepathy"), "telepathy"),
        (("--seeds", "0"), "--seeds"),
        (("--device", "abacus"), "--device abacus"),
        (("--device", "cuda:99"), "Leave --device out"),
    ],
)
def test_what_cannot_be_done_is_told(given, says):
    said = call("retrieval", "--small", *given)
    assert said.exit_code != 0 and says in said.output
    assert "Traceback" not in said.output


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "taken").write_text("mine")
    said = call("retrieval", "--small", "--out", str(tmp_path / "taken"))
    assert said.exit_code == 1 and "name a folder" in said.output


def test_missing_data_are_told_with_what_to_set(monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    said = call("sst", "--small")
    assert said.exit_code == 1 and "set REGARD_DATA" in said.output
