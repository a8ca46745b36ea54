"""The house: who may import whom, what a bare import brings along, and how large a room may be."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "regard"

# What each room may import of ours, besides core. Top to bottom only; the roof is cli, demo and commands.
BELOW = {
    "core": set(),
    "backends": set(),
    "nn": set(),
    "data": set(),
    "recording": set(),
    "taxonomy": set(),
    "scores": set(),
    "alignments": set(),
    "derived": {"recording"},
    "detectors": {"recording"},
    "interventions": {"recording"},
    "models": {"data", "nn", "recording"},
    "judging": {"data", "derived", "models", "nn", "recording"},
    "studies": {"data", "judging", "models", "recording"},
    "views": {"judging", "recording", "studies"},
    "bench": {"data", "judging", "models", "nn", "recording", "studies", "views"},
}
ROOF = {"__main__", "cli", "commands", "demo", "__init__"}
HEAVY = {
    "triton",
    "transformers",
    "torch_geometric",
    "lightning",
    "matplotlib",
    "numba",
    "sklearn",
    "sqlalchemy",
    "ray",
    "rdkit",
    "pandas",
    "scipy",
    "fastapi",
    "anywidget",
    "rich",
    "typer",
}
LONG = {"backends/numba_edges/kernels.py"}  # one file, because numba's cache on disk notices a change in no other


def modules():
    return sorted(ROOT.rglob("*.py"))


def imported(path):
    """Names of ours that a file imports, the first part after `regard`, wherever in the file."""
    here = ("regard", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = here[: len(here) - node.level + 1]
            inner = tuple(node.module.split(".")) if node.module else ()
            names = [(*start, *inner)] if inner else [(*start, each.name) for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "regard":
            inner = tuple(node.module.split("."))
            names = [inner] if len(inner) > 1 else [(*inner, each.name) for each in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(each.name.split(".")) for each in node.names if each.name.split(".")[0] == "regard"]
        else:
            continue
        yield from (name[1] for name in names if len(name) > 1)


def room(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def test_imports_go_from_top_to_bottom():
    rooms = {room(path) for path in modules()}
    wrong = []
    for path in modules():
        own = room(path)
        if own in ROOF:
            continue
        assert own in BELOW, f"{own} has no place in the house: give it one here and in docs."
        wrong += [
            f"{path.relative_to(ROOT)} imports {name}"
            for name in imported(path)
            if name in rooms and name not in {own, "core", *BELOW[own]}
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("who", "never"),
    [
        ("judging", "matplotlib"),
        ("core", "sklearn"),
        ("views", "sklearn"),
        *((who, "rich") for who in ("core", "backends", "nn", "data", "models", "judging", "studies")),
    ],
)
def test_who_does_not_draw_and_who_does_not_train(who, never):
    for path in (ROOT / who).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [each.name for each in node.names]
                if isinstance(node, ast.Import)
                else ([node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else [])
            )
            assert not any(name.split(".")[0] == never for name in names), f"{path.relative_to(ROOT)} imports {never}"


def test_a_bare_import_brings_nothing_heavy_and_of_ours_only_what_attends():
    code = "import sys, regard; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    brought = {name.split(".")[0] for name in names}
    assert not brought & HEAVY, brought & HEAVY
    ours = {name.split(".")[1] for name in names if name.startswith("regard.")}
    assert ours == {"core", "backends", "scores", "alignments"}


def test_names_that_come_later_come_when_asked_for_and_others_are_refused():
    import regard

    assert set(regard.__all__) <= set(dir(regard))
    assert regard.nn is sys.modules["regard.nn"] and regard.judge is regard.judging.judge
    with pytest.raises(AttributeError, match="no attribute 'juge'"):
        _ = regard.juge


def test_every_room_is_told_in_how_it_fits():
    house = (ROOT.parents[1] / "docs" / "how_it_fits.md").read_text(encoding="utf-8").split("## The house")[1]
    assert [room for room in BELOW if not re.search(rf"\b{room}\b", house)] == []


def test_no_file_has_grown_past_one_idea():
    long = {str(path.relative_to(ROOT)): n for path in modules() if (n := len(path.read_text().splitlines())) > 360}
    assert set(long) <= LONG, long
