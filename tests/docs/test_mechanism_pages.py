"""The pages of mechanisms and examples: their code runs, prints what stands under it, and drew the picture above it."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the pages draw with matplotlib: pip install 'regard[demo]'")
from PIL import Image

from regard.taxonomy import also_known_as, mechanisms

DOCS = Path(__file__).parents[2] / "docs"


def loaded(name: str):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


make_pictures, hooks = loaded("make_pictures"), loaded("hooks")

PAGES = make_pictures.pages()
MECHANISMS = [page for page in PAGES if page.parent.name == "mechanisms" and page.stem != "index"]
NUMBER, alike = make_pictures.NUMBER, make_pictures.alike


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_code_runs_and_prints_what_the_page_shows(page):
    names = {"__name__": "page"}
    for block in make_pictures.blocks(page):
        printed = make_pictures.run(block["code"], page, names)
        shown = block["printed"] or ""
        assert alike(printed, shown), f"{page.name} shows\n{shown}\nand its code prints\n{printed}"
    make_pictures.plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("page", make_pictures.trained(), ids=lambda page: page.stem)
def test_a_page_that_trains_a_model_comes_to_what_it_says(page):
    names = {"__name__": "page"}
    for block in make_pictures.blocks(page):
        printed, shown = make_pictures.run(block["code"], page, names), block["printed"] or ""
        assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()  # its verdicts are words
        found, told = (np.array([float(x) for x in NUMBER.findall(text)]) for text in (printed, shown))
        assert np.allclose(found, told, atol=0.2)  # another machine trains another model


@pytest.mark.parametrize("page", [*MECHANISMS, *make_pictures.graph_layers()], ids=lambda page: page.stem)
def test_the_picture_was_drawn_by_the_code_under_it(page):
    found = make_pictures.FIGURE.search(page.read_text(encoding="utf-8"))
    assert found, f"{page.name} has no picture"
    picture = DOCS / "images" / found["room"] / found["name"]
    assert found["room"] == page.parent.name
    assert picture.stem == page.stem
    assert picture.stat().st_size < 60_000
    with Image.open(picture) as image:
        drawn_by = image.text["Code"]
    code = make_pictures.blocks(page)[0]["code"]
    assert drawn_by == make_pictures.fingerprint(code), f"run: python docs/make_pictures.py {page.stem}"


@pytest.mark.parametrize("page", MECHANISMS, ids=lambda page: page.stem)
def test_a_page_has_its_parts(page):
    text = page.read_text(encoding="utf-8")
    for part in ("```text\n", "```python\n", "## When it helps", "## When it fails", "## Paper", "Reference: "):
        assert part in text, f"{page.name} lacks {part.strip()}"
    assert any(block["printed"] for block in make_pictures.blocks(page)), f"{page.name} measures nothing"


@pytest.mark.parametrize("page", sorted({one.page for one in mechanisms()}))
def test_a_page_names_what_else_the_field_calls_its_mechanisms(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if line.startswith("Also known as")]
    assert shown == ([also_known_as(page)] if also_known_as(page) else [])


def test_every_page_is_that_of_a_mechanism_and_every_mechanism_has_its_page():
    wanted = {one.page for one in mechanisms()}
    assert [page for page in sorted(wanted) if not (DOCS / page).is_file()] == []
    assert {f"mechanisms/{page.name}" for page in MECHANISMS} <= wanted


def test_the_tree_of_the_docs_is_that_of_the_command():
    shown = hooks.on_page_markdown(
        (DOCS / "mechanisms/index.md").read_text(encoding="utf-8"),
        SimpleNamespace(file=SimpleNamespace(abs_src_path=str(DOCS / "mechanisms/index.md"))),
    )
    for one in mechanisms():
        assert f"`{one.where.removeprefix('regard.')}` | `{one.short}`" in shown
    links = re.findall(r"\]\(([\w/.]+\.md)\)", shown)
    assert len(links) > len(mechanisms())
    assert [link for link in links if not (DOCS / "mechanisms" / link).resolve().is_file()] == []
    assert hooks.TREE not in shown
