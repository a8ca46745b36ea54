"""Documents run: every Python block, and the notebook with the output it shows."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

import regard

plt = pytest.importorskip("matplotlib.pyplot")

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d*")
WITH_CODE = [
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "integrations").glob("*.md"))
    if BLOCK.search(path.read_text(encoding="utf-8")) and path.name != "CONTRIBUTING.md"  # has its own test
]


@pytest.fixture(autouse=True)
def off_screen():
    plt.switch_backend("agg")
    yield
    plt.close("all")


LIBRARIES = ("timm", "diffusers", "onnxruntime")  # which `make test` does not install


@pytest.mark.parametrize("document", WITH_CODE)
def test_every_python_block_of_a_document_runs(document):
    for library in LIBRARIES:
        if re.search(rf"^import {library}$", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE):
            pytest.importorskip(library, reason=f"{library} is not installed (make test-integrations)")
    names: dict[str, object] = {"__name__": document}
    for block in BLOCK.findall((ROOT / document).read_text(encoding="utf-8")):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, document, "exec"), names)


def test_both_readmes_show_the_same_code():
    def code(name: str) -> list[str]:
        return [re.sub(r"\s*#.*", "", block) for block in BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))]

    assert code("README.md") == code("README.zh.md")


@pytest.mark.parametrize("document", ["README.md", "README.zh.md"])
def test_the_readme_counts_what_is_there(document):
    public = [getattr(regard, name) for name in regard.__all__]
    kinds = (regard.Score, regard.Alignment, regard.Structure)
    there = [
        sum(isinstance(one, type) and issubclass(one, kind) and one is not kind for one in public) for kind in kinds
    ]
    claim = next(
        line for line in (ROOT / document).read_text(encoding="utf-8").splitlines() if re.match(r"- \*\*\d", line)
    )
    assert [int(number) for number in re.findall(r"\d+", claim)[:3]] == there


def test_the_notebook_prints_what_it_shows():
    notebook = json.loads((ROOT / "docs/five_tokens.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), "five_tokens.ipynb", "exec"), names)
        shown = "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")
        assert NUMBER.sub("", printed.getvalue()).split() == NUMBER.sub("", shown).split()
        assert_allclose(numbers(printed.getvalue()), numbers(shown), atol=1.01e-4)


def test_the_notebook_shows_its_heat_maps():
    notebook = json.loads((ROOT / "docs/five_tokens.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2  # the weights; a number changed


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]
