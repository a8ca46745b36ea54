"""The page of public names: every name has a first sentence, and none is missing."""

import re
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="studies keep their trials with SQLAlchemy: pip install 'regard[studies]'")
from tests.docs.test_mechanism_pages import loaded

ROOT = Path(__file__).parents[2]
names = loaded("names")
INNER = (
    "regard.core.",
    "regard.nn.",
    "regard.data.",
    "regard.recording.",
    "regard.judging.",
    "regard.lab.",
    "regard.views.",
    "regard.eager_names",  # the names of `regard` itself
)


@pytest.mark.parametrize("package", names.PUBLIC)
def test_every_public_name_says_in_a_sentence_what_it_is(package):
    there = import_module(package)
    assert there.__doc__
    assert [name for name in there.__all__ if not names.says(package, name)] == []
    assert len(set(there.__all__)) == len(there.__all__)


def test_the_page_lists_every_public_name_once_in_its_package():
    parts = re.split(r"^## (regard[\w.]*)$", names.tables(), flags=re.MULTILINE)[1:]
    listed = {
        package: re.findall(r"^\| `(\w+)` \| \S", text, re.MULTILINE)
        for package, text in zip(parts[::2], parts[1::2], strict=True)
    }
    assert {package: sorted(found) for package, found in listed.items()} == {
        package: sorted(import_module(package).__all__) for package in names.PUBLIC
    }


def test_every_package_with_public_names_is_on_the_page_or_inside_one_that_is():
    public = re.compile(r"^(__all__|from .* import __all__)", re.MULTILINE)
    found = [
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "src").rglob("*.py")
        if public.search(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > len(names.PUBLIC)
    assert [one for one in found if one not in names.PUBLIC and not one.startswith(INNER)] == []


def test_a_sentence_stands_for_a_constant_only_where_there_is_one():
    for path in names.CONSTANTS:
        package, name = path.rsplit(".", 1)
        assert name in import_module(package).__all__ and not callable(getattr(import_module(package), name))
