"""regard study, as someone types it."""

import json
import os
import platform
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.studies import Results, Study
from regard.studies.runner import identity
from regard.studies.running import store_of

TEXT = """
name = "typed"
tasks = [{ task = "trivial", options = { milliseconds = 1 } }]
variants = ["a", "b"]
seeds = 6
"""


def call(*arguments):
    return CliRunner().invoke(app, ["study", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "typed.toml"
    path.write_text(TEXT)
    return path


def test_a_study_is_run_looked_at_and_reported_by_its_folder_or_its_file(file):
    said = call("run", file, "--workers", 1)
    assert said.exit_code == 0, said.output
    assert "12 of 12 trials" in said.output and "the smallest p after Holm's" in said.output
    assert Path("typed-study/store.sqlite").is_file()
    for what in (file, "typed-study"):
        assert "typed: 12 done, 0 running, 0 waiting, 0 failed" in call("status", what).output
    found = Results.from_json(call("report", "typed-study", "--json", "--to", "told").stdout)
    assert len(found.rows) == 12 and Results.from_json(Path("told/results.json").read_text()) == found
    assert list(Path("told").glob("*.html"))
    assert json.loads(call("status", file, "--json").stdout)["trials"]["done"] == 12
    both = call("compare", file, "b", "a")
    assert both.exit_code == 0 and "beside a" in both.output
    assert "name two variants" in call("compare", file, "dot", "a").output
    assert call("resume", "typed-study", "--json").exit_code == 0


def test_what_runs_is_told_with_who_runs_it(file):
    call("run", file, "--workers", 1, "--quiet")
    file.write_text(TEXT.replace("seeds = 6", "seeds = 7"))
    study, store = Study.read(file), store_of(Path("typed-study"), None, True)
    store.add(study.name, study.plain(), study.jobs())
    claim = store.claim("typed", f"{identity()}/3")
    began = f"  trivial: a, seed 6: 0 % (0 s, worker 3 of process {os.getpid()} on {platform.node()})"
    assert call("status", "typed-study").output.splitlines()[1] == began
    store.beat([claim], {claim.token: (0.25, "step 5 of 20")})
    assert ": 25 %, step 5 of 20 (" in call("status", "typed-study").output
    store.close()


def test_a_cancelled_study_is_told_as_such_and_resumed(file):
    call("run", file, "--workers", 1, "--quiet")
    file.write_text(TEXT.replace("seeds = 6", "seeds = 7"))
    assert "is cancelled" in call("cancel", "typed-study").output
    assert "cancelled" in call("status", "typed-study").output
    assert "12 done" in call("status", "typed-study").output
    assert call("run", file, "--quiet", "--workers", 1).exit_code == 0
    assert "14 done, 0 running, 0 waiting, 0 failed\n" in call("status", "typed-study").output


def test_what_is_missing_is_an_exit_status_and_a_sentence(file):
    file.write_text('name = "bad"\ntasks = ["math:sqrt"]\nvariants = ["a", "b"]\nseeds = 1\n')
    said = call("run", file, "--workers", 1)
    assert said.exit_code == 1
    assert "math:sqrt: a, seed 0 failed for the last time: TypeError" in said.output
    assert "Missing: math:sqrt, a, seed 0: TypeError" in said.output
    assert "3 seeds" not in said.output and "Nothing that this study finds can be called significant" in said.output
    assert "failed: TypeError" in call("status", file).output


@pytest.mark.parametrize("task, says", [
    ('"no_such_module:task"', "No module named 'no_such_module'"),
    ('{ task = "gat", options = { data = "cora" } }', "set REGARD_DATA"),
])  # fmt: skip
def test_what_no_attempt_would_find_stops_a_study_at_once_and_it_goes_on_later(file, monkeypatch, task, says):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    file.write_text(f'name = "bad"\ntasks = [{task}]\nvariants = ["mean"]\nseeds = 2\n')
    said = call("run", file, "--workers", 1)
    assert said.exit_code and says in said.output and "then `regard study resume`" in said.output
    assert "0 done, 0 running, 2 waiting, 0 failed\n" in call("status", file).output


@pytest.mark.parametrize("change, options, told", [
    (('seeds = 6', 'sedes = 6'), (), "line 5"),
    (('', ''), ("--engine", "cloud"), "local, ray"),
    (('', ''), ("--address", "auto"), "engine='ray'"),
    (('"a", "b"', ''), (), "line 4"),
])  # fmt: skip
def test_what_cannot_be_run_is_told_in_a_sentence(file, change, options, told):
    file.write_text(TEXT.replace(*change))
    said = call("run", file, *options)
    assert said.exit_code == 1 and told in said.output and "Traceback" not in said.output


def test_a_study_that_was_never_run_is_told_with_what_to_type(file):
    said = call("status", file)
    assert said.exit_code == 1 and "regard study run" in said.output
    assert not os.path.exists("typed-study")


def test_a_study_that_is_not_there_is_told_with_the_one_that_is(file):
    said = call("run", "studies/mine.toml")
    assert said.exit_code == 1 and "There is no study studies/mine.toml" in said.output and "run quick" in said.output


def test_studies_that_come_with_regard_are_whole():
    studies = Path(__file__).parents[2] / "studies"
    for path in studies.glob("*.toml"):
        assert Study.read(path).jobs()
    assert Study.read("quick") == Study.read(studies / "quick.toml")
