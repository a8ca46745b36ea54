"""The examples of CONTRIBUTING, copied to the paths they name in a copy of the project, work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="one of the four is a figure: pip install 'regard[demo]'")

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
COPIED = ("src/regard", "tests")

WALK = """
import torch
from tests.oracle import Case, disagreements
from typer.testing import CliRunner

import regard
from regard.cli.app import app
from regard.judging import all_tests
from regard.models.attention_spec import parse_attention


def test_attend_and_layers_accept_the_registered_names():
    q = torch.randn(2, 4, 8)
    out, amap = regard.attend(q, q, q, score="canberra", align="taylor")
    assert torch.allclose(amap.weights() @ q, out, atol=1e-6)
    assert regard.nn.Attention(8, heads=2, score="canberra", align="taylor")(q).out.shape == q.shape
    assert str(parse_attention("canberra+taylor")) == "canberra+taylor"


def test_the_oracle_compares_both_with_the_reference():
    for over, size in (("causal & padding", "n=m"), ("edges", "n<m"), ("full", "m=0")):
        assert disagreements(Case("canberra", "taylor", over, size)) == []


def test_the_taxonomy_command_lists_them():
    shown = CliRunner().invoke(app, ["taxonomy", "canberra"])
    assert "regard.scores.Canberra" in shown.stdout and "Lance & Williams 1967" in shown.stdout
    assert "regard.alignments.Taylor" in CliRunner().invoke(app, ["taxonomy"]).stdout


def test_the_test_of_attention_is_registered_and_comes_last():
    assert all_tests()[-1].name == "early"
"""


def test_there_are_four_examples_each_one_file_with_its_test():
    sources = {path for path in FILES if path.startswith("src/")}
    tests = {path for path in FILES if path.startswith("tests/")}
    assert len(sources) == 4 and sources | tests == FILES.keys()
    for path in sources:
        room = Path(path).relative_to("src/regard")
        assert f"tests/{room.parent.as_posix()}/test_{room.name}" in tests
        assert not (ROOT / path).exists(), f"{path} is there already: show another example."


def test_a_score_an_alignment_a_test_and_a_figure_need_one_file_each(tmp_path):
    for folder in COPIED:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs/how_it_fits.md", tmp_path / "docs")  # the house's tests read it
    for path, code in FILES.items():
        (tmp_path / path).write_text(code, encoding="utf-8")
    (tmp_path / "tests/test_walk.py").write_text(WALK, encoding="utf-8")
    own = [path for path in FILES if path.startswith("tests/")]
    everyone = ["tests/test_walk.py", "tests/core/scores/test_names.py", "tests/test_house.py"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *own, *everyone],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "src", "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr
