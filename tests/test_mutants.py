"""The list of mutants is up to date; `make mutations` runs it."""

from pathlib import Path

import pytest
from tests.mutants import MUTANTS

from regard.core.registry import backends

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_mutant_changes_one_place_and_names_tests_that_are_there(mutant):
    text = (ROOT / "src" / "regard" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1, f"{mutant.file} has changed: give the mutant a new place."
    assert mutant.wrong != mutant.right
    compile(text.replace(mutant.right, mutant.wrong), mutant.file, "exec")
    places = [word for word in mutant.tests.split() if word.startswith("tests/")]
    assert places and all((ROOT / place).exists() for place in places)


def test_every_backend_has_a_mutant():
    files = {mutant.file for mutant in MUTANTS}
    for backend in backends():
        place = type(backend).__module__.removeprefix("regard.").replace(".", "/").removesuffix("/backend")
        assert any(name.startswith(place) for name in files), f"{backend.name} has no mutant."
