"""The command `regard`, as someone types it."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import regard
from regard.cli import app


def call(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_version_is_that_of_the_package():
    result = call("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"regard {regard.__version__}"


@pytest.mark.parametrize("command", [(), ("demo",), ("bench",), ("bench", "core")])
def test_every_command_explains_itself(command):
    result = call(*command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_the_first_help_shows_what_to_type():
    assert "regard demo" in call("--help").output


def test_out_that_is_a_file_is_refused_before_anything_is_trained(tmp_path: Path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    result = call("demo", "--out", str(taken))
    assert result.exit_code == 1
    assert "is a file" in result.output and "name a folder" in result.output
    assert taken.read_text() == "mine"


def test_a_missing_extra_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in [name for name in sys.modules if name.startswith(("regard.demo", "sklearn."))]:
        monkeypatch.delitem(sys.modules, name)
    result = call("demo")
    assert result.exit_code == 1
    assert "pip install 'regard[demo]'" in result.output


def test_no_seeds_are_refused():
    assert call("demo", "--seeds", "0").exit_code == 2
