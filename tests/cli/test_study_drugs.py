"""regard study drugs."""

import pytest
from typer.testing import CliRunner

from regard.cli.app import app

pytest.importorskip("rdkit")


def called(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["study", "drugs", *arguments], env={"COLUMNS": "100", "TERM": "dumb"})
    return result.exit_code, result.output


def test_a_split_that_does_not_exist_is_answered_by_those_that_do(tmp_path):
    code, said = called("--small", "--splits", "lines", "-o", str(tmp_path / "x"))
    assert code == 1 and "--splits lines: expected some of pairs, cells, tissues, drugs, scaffolds" in said


def test_a_folder_that_is_not_there_is_not_reported(tmp_path):
    code, said = called("--small", "--report", "-o", str(tmp_path / "nothing"))
    assert code == 1 and "run without --report first" in said and not (tmp_path / "nothing").exists()
