"""The pages of mechanisms and examples: their code runs, prints what stands under it, and drew the picture above it."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the pages draw with matplotlib: pip install 'regard[demo]'")
from PIL import Image

import regard
from regard.core.scores.modifiers import Modifier

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
make_pictures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_pictures)

PAGES = make_pictures.pages()
MECHANISMS = [page for page in PAGES if page.parent.name == "mechanisms" and page.stem != "index"]
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
NOTHING = 1e-5  # what a page prints as a rounding error


def alike(found: str, shown: str) -> bool:
    """The same words, and numbers that differ by no more than another machine may make them."""
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", shown).split():
        return False
    for a, b in zip(NUMBER.findall(found), NUMBER.findall(shown), strict=True):
        x, y = (float(number.replace(",", "")) for number in (a, b))
        if abs(x) < NOTHING and abs(y) < NOTHING:
            continue
        slack = 0.02 if "." in b else 3.0 if "%" in shown else 0.0
        if abs(x - y) > slack + 0.1 * abs(y):
            return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_code_runs_and_prints_what_the_page_shows(page):
    names = {"__name__": "page"}
    for block in make_pictures.blocks(page):
        printed = make_pictures.run(block["code"], page, names)
        shown = block["printed"] or ""
        assert alike(printed, shown), f"{page.name} shows\n{shown}\nand its code prints\n{printed}"
    make_pictures.plt.close("all")


@pytest.mark.parametrize("page", MECHANISMS, ids=lambda page: page.stem)
def test_the_picture_was_drawn_by_the_code_under_it(page):
    found = make_pictures.FIGURE.search(page.read_text(encoding="utf-8"))
    assert found, f"{page.name} has no picture"
    picture = make_pictures.PICTURES / found["name"]
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


def test_every_mechanism_has_its_page():
    text = (DOCS / "mechanisms" / "index.md").read_text(encoding="utf-8")
    names = [*regard.scores.NAMES, *regard.alignments.NAMES]
    assert [name for name in names if f'`"{name}"`' not in text] == []
    alone = ["Location", "LocationAware", "LearnedQuery", "TopK", "Reinforced", "Rotary"]
    alone += [kind.__name__ for kind in Modifier.__subclasses__() if kind.__module__.startswith("regard.core.")]
    assert [name for name in alone if f"`{name}`" not in text] == []
    assert [page.name for page in MECHANISMS if f"({page.name})" not in text] == []
