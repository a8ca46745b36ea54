"""Names of modules and files that pages and docstrings mention exist."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from regard.lab.plugin import MOVED

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "regard"
PAGES = [
    path
    for path in sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
    if path.name != "CHANGELOG.md"  # tells of names that are gone
]
DOTTED = re.compile(r"(?<![\w./@-])regard(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|ts|toml)|[\w-]+(?:/[\w-]+)+/)`")
FOLDERS = (ROOT, PACKAGE, ROOT / "docs", ROOT / "tests", ROOT / "web" / "src")

NOT_PYTHON = {
    *(
        f"regard.{name}"
        for name in (
            "BlocksMap",
            "CombinedMap",
            "Composed",
            "FactoredMap",
            "ImpliedMap",
            "JoinedMap",
            "LazyMap",
            "LastRowsMap",
            "MixedHeadsMap",
            "RowState",
            "StoredMap",
        )
    ),  # types of torch.export
    *("regard.ids_within", "regard.authenticated"),  # torch.ops.regard, a key of an ASGI scope
    *("regard.js", "regard.render"),  # the front end
    *("regard.plugins", "regard.serve"),  # a group of entry points, a logger
    *(old.partition(":")[0] for old in MOVED),  # where functions of stored studies were
}
EXAMPLES = {"canberra", "early", "bars", "taylor", "mine"}  # written by whoever follows CONTRIBUTING or the tutorial


@cache
def resolves(path: str) -> bool:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as missing:
            if "is not installed" in str(missing):
                return True  # an integration whose library is not here
            continue
        for name in parts[length:]:
            if not hasattr(value, name):
                return False
            value = getattr(value, name)
        return True
    return False


def dotted(text: str) -> set[str]:
    found = set(DOTTED.findall(text))
    return {path for path in found if not any(f"{path}.".startswith(f"{known}.") for known in NOT_PYTHON)}


def unresolved(text: str) -> list[str]:
    return sorted(path for path in dotted(text) if not is_example(path) and not resolves(path))


def is_example(path: str) -> bool:
    return bool(EXAMPLES & set(re.split(r"[./_]", path.casefold())))


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_dotted_name_on_a_page_resolves(page):
    assert unresolved(page.read_text(encoding="utf-8")) == []


def test_every_dotted_name_in_the_sources_resolves():
    wrong = {page_id(path): unresolved(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {path: names for path, names in wrong.items() if names} == {}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_file_of_the_project_that_a_page_names_exists(page):
    named = FILE.findall(page.read_text(encoding="utf-8"))
    tops = {part.name for folder in FOLDERS for part in folder.iterdir()}
    ours = [path for path in named if path.split("/")[0] in tops]
    ours = [path for path in ours if not is_example(path)]
    assert [path for path in ours if not any((folder / path).exists() for folder in FOLDERS)] == []
