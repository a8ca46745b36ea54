"""The pages about graphs: their code runs and prints what stands under it, and every layer has one."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from regard.nn import graph

pytest.importorskip("networkx")
DOCS = Path(__file__).parents[3] / "docs" / "graph"
PAGES = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+\.\d*|\d+(?=%)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_runs_and_prints_what_the_page_shows(page: Path) -> None:
    names: dict[str, object] = {"__name__": "page"}
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert found, f"{page.name} has no code"
    for code, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        given = printed.getvalue()
        assert NUMBER.sub("#", given).split() == NUMBER.sub("#", shown).split(), given
        for a, b in zip(NUMBER.findall(given), NUMBER.findall(shown), strict=True):
            assert abs(float(a) - float(b)) <= 0.02 + 0.1 * abs(float(b)), (given, shown)


def test_every_layer_has_its_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    alone = {"TypedMap", "GraphConv"}
    assert [name for name in graph.__all__ if f"::: regard.nn.{name}" not in text and name not in alone] == []
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if page.stem != "index" and f"({page.name})" not in index] == []
