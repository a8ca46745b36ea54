"""How the command starts and ends: Ctrl-C at any moment is one line and exit status 130, and nothing is imported from
the folder where somebody happens to stand."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
INTERRUPT = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"  # its handler runs before the next line
TURNED = f"import os, signal\ntry:\n    {INTERRUPT.splitlines()[1]}\nexcept KeyboardInterrupt:\n    raise ImportError\n"
AT_EXIT = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
SCRIPT = "import sys\nfrom regard.cli.app import app\nsys.exit(app())\n"  # what pip writes into bin/


@pytest.fixture(params=["script", "module"])
def command(request, tmp_path):
    """The command as people start it: its script, or python -m."""
    if request.param == "module":
        return [sys.executable, "-m", "regard"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "regard").write_text(SCRIPT)
    return [sys.executable, str(tmp_path / "bin" / "regard")]


def environment(folder: Path) -> dict[str, str]:
    paths = [str(folder), str(SOURCE), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run(command, *arguments, cwd, **options):
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=environment(cwd / "modules"),
        **options,
    )


def module(folder: Path, name: str, text: str) -> None:
    """A module that comes before everything installed."""
    (folder / "modules").mkdir(exist_ok=True)
    (folder / "modules" / f"{name}.py").write_text(text)


def is_one_line(done) -> bool:
    lines = done.stderr.splitlines()
    return done.returncode == 130 and len(lines) == 1 and lines[0].startswith("Stopped")


@pytest.mark.covered
@pytest.mark.parametrize("name", ["torch", "typer", "rich"])
def test_ctrl_c_while_the_command_is_imported_is_one_line(name, command, tmp_path):
    module(tmp_path, name, INTERRUPT + "raise SystemExit('it went on')")
    done = run(command, "taxonomy", cwd=tmp_path)
    assert is_one_line(done) and done.stdout == "", done


@pytest.mark.covered
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("study", "status", "x"), "sqlalchemy"),
        (("study", "run", "quick"), "pydantic"),
        (("demo",), "sklearn"),
    ],
)
@pytest.mark.parametrize("text", [INTERRUPT, TURNED], ids=["raised", "turned into an error"])
def test_ctrl_c_while_a_command_imports_what_it_needs_is_one_line(arguments, name, text, command, tmp_path):
    module(tmp_path, name, text)
    done = run(command, *arguments, cwd=tmp_path)
    assert is_one_line(done), done


def test_ctrl_c_while_the_interpreter_shuts_down_is_one_line_and_what_was_printed_is_whole(command, tmp_path):
    module(tmp_path, "sitecustomize", AT_EXIT)
    done = run(command, "--version", cwd=tmp_path)
    assert is_one_line(done) and done.stdout.startswith("regard "), done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Children inherit what is ignored where there is fork.")
def test_who_ignores_interrupts_is_not_stopped(command, tmp_path):
    module(tmp_path, "sitecustomize", AT_EXIT)
    done = run(command, "--version", cwd=tmp_path, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert done.returncode == 0 and done.stderr == ""


def test_a_program_that_imports_regard_keeps_its_interrupts(tmp_path):
    code = "import regard, regard.cli.app, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert run([sys.executable, "-c", code], cwd=tmp_path).stdout == "True\n"


STUDY = """
name = "long"
tasks = ["endless:task"]
variants = ["a", "b"]
seeds = 2
"""
ENDLESS = """
import pathlib, time

def task(variant, seed, setting):
    pathlib.Path({folder!r}, f"began-{{variant}}-{{seed}}").touch()
    while True:
        time.sleep(0.05)
"""


@pytest.mark.covered
def test_ctrl_c_while_workers_compute_gives_their_trials_back_and_leaves_no_worker(command, tmp_path):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("pydantic")
    (tmp_path / "long.toml").write_text(STUDY)
    (tmp_path / "endless.py").write_text(ENDLESS.format(folder=str(tmp_path)))
    both = [*command, "study", "run", "long.toml", "--workers", "2"]
    process = subprocess.Popen(
        both,
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path / "modules"),
        start_new_session=True,
    )
    while len(list(tmp_path.glob("began-*"))) < 2 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130 and "Traceback" not in said
    assert said.splitlines()[-1] == "Stopped; the same command resumes from what is saved."
    status = run(command, "study", "status", "long-study", cwd=tmp_path).stdout
    assert "0 done, 0 running, 4 waiting, 0 failed" in status


@pytest.mark.covered
@pytest.mark.parametrize("name", ["torch", "typer", "lightning", "tomllib"])
def test_a_module_in_the_current_folder_is_not_run(name, command, tmp_path):
    (tmp_path / f"{name}.py").write_text("open('run', 'w')\n")
    done = run(command, "study", "run", "none.toml", cwd=tmp_path)
    assert "There is no study none.toml" in done.stderr, done
    assert not (tmp_path / "run").exists()
