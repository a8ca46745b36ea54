"""regard study, as someone types it."""

import io
import json
import os
import platform
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from regard.cli.app import app
from regard.cli.output.study_progress import progress_callbacks
from regard.studies import Results, Study
from regard.studies.run_study import store_of
from regard.studies.trial_runner import identity
from regard.studies.trial_store import Lease

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
    assert "12 of 12 trials" in said.output and "the smallest reachable p after Holm's" in said.output
    assert Path("typed-study/store.sqlite").is_file()
    for what in (file, "typed-study"):
        assert "typed: 12 done, 0 running, 0 waiting, 0 failed" in call("status", what).output
    found = Results.from_json(call("report", "typed-study", "--json", "--to", "told").stdout)
    assert len(found.rows) == 12 and Results.from_json(Path("told/results.json").read_text()) == found
    assert list(Path("told").glob("*.html"))
    assert json.loads(call("status", file, "--json").stdout)["trials"]["done"] == 12
    both = call("compare", file, "b", "a")
    assert both.exit_code == 0 and "differences to a" in both.output
    assert "name two variants" in call("compare", file, "dot", "a").output
    assert call("resume", "typed-study", "--json").exit_code == 0


def test_what_runs_is_told_with_who_runs_it(file):
    call("run", file, "--workers", 1, "--quiet")
    file.write_text(TEXT.replace("seeds = 6", "seeds = 7"))
    study, store = Study.read(file), store_of(Path("typed-study"), None, True)
    store.add(study.name, study.plain(), study.jobs())
    lease = store.claim("typed", f"{identity()}/3")
    began = rf"  trivial: a, seed 6: 0 % \(\d+ s, worker 3 of process {os.getpid()} on {re.escape(platform.node())}\)"
    assert re.fullmatch(began, call("status", "typed-study").output.splitlines()[1])
    store.heartbeat([lease], {lease.token: (0.25, "step 5 of 20")})
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
    assert "math:sqrt: a, seed 0 failed, without retries left: TypeError" in said.output
    assert "Missing: math:sqrt, a, seed 0: TypeError" in said.output
    assert "3 seeds" not in said.output and "cannot reach significance" in said.output
    assert "failed: TypeError" in call("status", file).output


@pytest.mark.parametrize(
    "task, says",
    [
        ('"no_such_module:task"', "No module named 'no_such_module' is installed, nor is one in"),
        ('{ task = "gat", options = { data = "cora" } }', "set REGARD_DATA"),
    ],
)
def test_what_no_attempt_would_find_stops_a_study_at_once_and_it_goes_on_later(file, monkeypatch, task, says):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    file.write_text(f'name = "bad"\ntasks = [{task}]\nvariants = ["mean"]\nseeds = 2\n')
    said = call("run", file, "--workers", 1)
    assert said.exit_code and says in said.output and "then `regard study resume`" in said.output
    assert "0 done, 0 running, 2 waiting, 0 failed\n" in call("status", file).output


@pytest.mark.parametrize(
    "change, options, told",
    [
        (("seeds = 6", "sedes = 6"), (), "line 5"),
        (("", ""), ("--engine", "cloud"), "local, ray"),
        (("", ""), ("--address", "auto"), "engine='ray'"),
        (('"a", "b"', ""), (), "line 4"),
    ],
)
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


TASK = "def task(variant, seed, setting):\n    return {'score': 0.5}\n"


def test_workers_import_nothing_from_the_folder_that_they_are_started_in(file, tmp_path):
    for name in ("lightning", "torch", "numpy", "json", "trial", "lightning_fabric"):
        (tmp_path / f"{name}.py").write_text("open('run', 'a').write(__name__)\n")
    file.write_text("""
        name = "safe"
        tasks = ["retrieval"]
        small = true
        variants = ["uniform"]
        seeds = 1
        budget = { epochs = 1 }
    """)
    said = call("run", file, "--workers", 1)
    assert said.exit_code == 0, said.output
    assert not (tmp_path / "run").exists()


def test_a_task_of_ones_own_is_found_beside_the_study_wherever_it_is_run_from(file, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.py").write_text(TASK)
    (tmp_path / "mine.py").write_text("raise SystemExit('of the current folder')")
    mine = TEXT.replace('{ task = "trivial", options = { milliseconds = 1 } }', '"mine:task"')
    (tmp_path / "there" / "one.toml").write_text(mine.replace("seeds = 6", "seeds = 1"))
    assert call("run", "there/one.toml", "--workers", 1, "--out", "kept").exit_code == 0
    text = (tmp_path / "there" / "one.toml").read_text()
    (tmp_path / "there" / "one.toml").write_text(text.replace("seeds = 1", "seeds = 3"))
    study, store = Study.read("there/one.toml"), store_of(Path("kept"))
    store.add(study.name, study.plain(), study.jobs())
    store.close()
    monkeypatch.chdir(tmp_path / "kept")
    assert call("resume", tmp_path / "kept", "--workers", 1).exit_code == 0  # by its folder: it is remembered
    assert "6 done" in call("status", tmp_path / "kept").output


def test_a_module_beside_the_study_does_not_take_the_place_of_one_that_is_installed(file, tmp_path):
    (tmp_path / "colorsys.py").write_text(TASK)
    file.write_text('name = "taken"\ntasks = ["colorsys:task"]\nvariants = ["a"]\nseeds = 1\nretries = 0\n')
    said = call("run", file, "--workers", 1)
    assert said.exit_code == 1 and "has the name of an installed module: rename it" in said.output


NAMES = ["x[/red]", "[bold]y", ":bomb:", "back\\", "[", "[/]", "[link=http://a]b"]


@pytest.mark.parametrize("terminal", [False, True])
def test_brackets_and_colons_of_a_name_are_text_wherever_it_is_printed(file, terminal, monkeypatch):
    """Where it runs, fails, is missing, is reported and compared."""
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_INTERACTIVE", "1")
    fails = [f"fails {name}" for name in NAMES]
    file.write_text(
        TEXT.replace('["a", "b"]', json.dumps(NAMES + fails)).replace("seeds = 6", "seeds = 2\nretries = 1")
    )
    study, store = Study.read(file), store_of(Path("typed-study"), None, True)
    store.add(study.name, study.plain(), study.jobs())
    while (lease := store.claim("typed", "w")) is not None:
        if lease.variant in fails:
            store.fail(lease, f"ValueError: {lease.variant}", 0)
        else:
            store.finish(lease, {"numbers": {"score": 0.1 * lease.seed + 0.01 * NAMES.index(lease.variant)}})
    store.close()
    said = call("run", file, "--workers", 1)
    assert said.exit_code == 1 and said.exception.__class__ is SystemExit, said.exception
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.output)
    status = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", call("status", file).output)
    for name in NAMES:
        assert f"{name} " in plain and f"Missing: trivial, fails {name}, seed 0: ValueError: fails {name}" in plain
        assert f"trivial: fails {name}, seed 0 failed: ValueError: fails {name}\n" in status
    both = call("compare", file, NAMES[0], NAMES[1])
    assert both.exit_code == 0 and f"differences to {NAMES[1]}" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", both.output)
    assert "'none[/red]'" in call("compare", file, "none[/red]", NAMES[0]).output


def test_a_bar_shows_the_name_of_a_variant_as_it_is():
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with progress_callbacks(console, "typed[/red]", 2, 1) as callbacks:
        for how in ("done", "failed"):
            callbacks.started(0, Lease(1, "t", "trivial", "x[/red]", 0, {}))
            callbacks.progress(0, 0.5, "half [/red]")
            callbacks.ended(0, Lease(1, "t", "trivial", "x[/red]", 0, {}), how, 1.0, "ValueError: [/red]")
    said = console.file.getvalue()
    assert "typed[/red]" in said and "trivial: x[/red], seed 0" in said and "ValueError: [/red]" in said


def test_every_console_of_a_command_takes_names_as_text():
    """`cli_errors.console` is the one place; what views print of a record escapes its own."""
    folder = Path(__file__).parents[2] / "src" / "regard" / "cli"
    made = {path.name: path.read_text().count("Printer(") for path in folder.rglob("*.py")}
    expected = {"cli_errors.py": 1, "record_view.py": 3, "console.py": 1}
    assert {name: count for name, count in made.items() if count} == expected


def test_a_damaged_store_is_a_sentence_in_every_command(file):
    assert call("run", file, "--workers", 1, "--quiet").exit_code == 0
    for one in Path("typed-study").glob("store.sqlite*"):
        one.unlink()
    Path("typed-study/store.sqlite").write_text("This is no database. " * 99)
    for command in (
        ("run", file),
        ("resume", "typed-study"),
        ("status", "typed-study"),
        ("report", "typed-study"),
        ("compare", "typed-study", "a", "b"),
        ("cancel", "typed-study"),
    ):
        said = call(*command)
        assert said.exit_code == 1 and "is damaged, or is no store of studies" in said.output, said.output
        assert said.exception.__class__ is SystemExit


def test_a_store_without_a_study_says_what_to_type(file):
    store_of(Path("typed-study"), None, True).close()
    assert "run one with `regard study run FILE`" in call("status", "typed-study").output


def test_what_has_failed_is_told_with_what_to_type(file):
    file.write_text('name = "typed"\ntasks = ["math:sqrt"]\nvariants = ["a"]\nseeds = 1\nretries = 0\n')
    call("run", file, "--workers", 1, "--quiet")
    assert "`regard study resume typed-study --failed` retries" in call("status", "typed-study").output
    errors = json.loads(call("status", "typed-study", "--json").output)["failed"]
    assert errors[0]["ends"] == {"failed": 1, "crashed": 0, "lost": 0, "stopped": 0}
