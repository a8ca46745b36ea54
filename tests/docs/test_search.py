"""The site is found by the words of the field: each of them stands on the page that one would expect."""

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("search_terms", DOCS / "search_terms.py")
search_terms = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(search_terms)


def test_at_least_sixty_terms_are_listed():
    assert len(search_terms.TERMS) >= 60


@pytest.mark.parametrize(("term", "page"), search_terms.TERMS.items())
def test_a_term_stands_on_the_page_that_one_would_expect(term, page):
    assert search_terms.has((DOCS / page).read_text(encoding="utf-8"), term), f"{page} does not say {term}"


def test_a_term_that_the_search_index_lacks_is_named(tmp_path):
    """The build of the site fails on these."""
    entries = [{"location": page.replace(".md", ".html"), "title": "", "text": ""} for page in ("structures.md",)]
    for term, page in list(search_terms.TERMS.items())[1:]:
        entries.append({"location": page.replace(".md", ".html") + "#part", "title": "", "text": f"<p>{term}</p>"})
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text(json.dumps({"docs": entries}))
    assert search_terms.missing(tmp_path) == ["sliding window: structures.md"]
