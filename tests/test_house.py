"""The house: who may import whom, no import cycles, what a bare import brings along, and how large a room may be."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "regard"

# What each room may import of ours, besides core. Top to bottom only.
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
    "integrations": {"nn", "recording"},
    "models": {"data", "nn", "recording"},
    "judging": {"data", "derived", "models", "nn", "recording"},
    "studies": {"data", "judging", "models", "recording"},
    "views": {"judging", "recording", "studies"},
    "lab": {
        "data",
        "derived",
        "detectors",
        "integrations",
        "interventions",
        "judging",
        "models",
        "nn",
        "recording",
        "studies",
        "views",
    },
}
ROOF = {"__main__", "cli", "__init__", "eager_names"}
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
LARGE_ROOMS = {"nn/graph"}  # one file a layer
# Public names of two rooms, always read with the room: regard.GAT scores, regard.models.GAT is the network of it.
PUBLIC_TWICE = {"GAT", "GATv2", "Uniform"}


def files():
    return sorted(ROOT.rglob("*.py"))


def name_of(path):
    parts = ("regard", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports():
    """By module of ours, the modules of ours that it imports, wherever in the file; not what only types need."""
    names = {name_of(path): path for path in files()}
    found = {}
    for name, path in names.items():
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for_types = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for statement in node.body
            for inner in ast.walk(statement)
        }
        found[name] = set()
        for node in ast.walk(tree):
            if id(node) in for_types:
                continue
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "regard"):
                start = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*start, *([node.module] if node.module else [])])
                found[name] |= {full if (full := f"{base}.{one.name}") in names else base for one in node.names}
            elif isinstance(node, ast.Import):
                found[name] |= {one.name for one in node.names if one.name in names}
        found[name] = {one for one in found[name] if one in names and one != name}
    return found


def room(module):
    return [*module.split("."), "__init__"][1]


def test_imports_go_from_top_to_bottom():
    wrong = []
    for module, imported in imports().items():
        own = room(module)
        if own in ROOF:
            continue
        assert own in BELOW, f"{own} has no place in the house: give it one here and in docs/how_it_fits.md."
        wrong += [
            f"{module} imports {other}"
            for other in imported
            if room(other) != "__init__" and room(other) not in {own, "core", *BELOW[own]}
        ]
    assert not wrong, "\n".join(wrong)


def test_strings_name_no_package_above_either():
    """`import_module("regard.views")` in core would be an import that no import test sees."""
    wrong = []
    for path in files():
        own = room(name_of(path))
        if own in ROOF or own == "taxonomy":  # which is a list of names
            continue
        allowed = {own, "core", *BELOW[own]}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for other in re.findall(r"^regard\.(\w+)(?:\.\w+)*(?::\w+)?$", node.value):
                    if (ROOT / other).is_dir() and other not in allowed:
                        wrong.append(f"{name_of(path)} names {node.value!r}")
    assert not wrong, "\n".join(wrong)


def cycles(graph):
    """Groups of modules that import one another (Tarjan's strongly connected components of two and more)."""
    number, low, stack, groups = {}, {}, [], []

    def visit(module):
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            place = stack.index(module)
            if len(stack) - place > 1:
                groups.append(sorted(stack[place:]))
            del stack[place:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return groups


def test_there_is_no_import_cycle():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    # A package's __init__ stands for its modules, which may import one another's package.
    assert cycles(imports()) == []


def test_no_class_name_is_defined_twice():
    places = defaultdict(list)
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name_of(path))
    twice = {
        name: where
        for name, where in places.items()
        if len(where) > 1 and not name.startswith("_") and name not in PUBLIC_TWICE
    }
    assert not twice, "\n".join(f"{name}: {', '.join(where)}" for name, where in sorted(twice.items()))


def test_no_folder_has_too_many_files():
    counts = {
        str(folder.relative_to(ROOT)): len([p for p in folder.glob("*.py") if p.stem != "__init__"])
        for folder in ROOT.rglob("*")
        if folder.is_dir()
    }
    assert {name: n for name, n in counts.items() if n > 22 and name not in LARGE_ROOMS} == {}


def test_only_tables_of_numbers_skip_the_formatter():
    skips = sum(
        path.read_text(encoding="utf-8").count("# fmt: " + "skip")
        for folder in ("src", "tests", "docs", "studies")
        for path in (ROOT.parents[1] / folder).rglob("*.py")
    )
    assert skips < 60


@pytest.mark.parametrize(
    ("who", "never"),
    [
        ("judging", "matplotlib"),
        ("core", "sklearn"),
        ("views", "sklearn"),
        *((who, "rich") for who in ("core", "backends", "nn", "data", "models", "judging", "studies")),
    ],
)
def test_packages_that_do_not_draw_or_train(who, never):
    for path in (ROOT / who).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not any(name.split(".")[0] == never for name in names), f"{path.relative_to(ROOT)} imports {never}"


def test_import_regard_is_light():
    code = "import sys, regard; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    brought = {name.split(".")[0] for name in names}
    assert not brought & HEAVY, brought & HEAVY
    ours = {name.split(".")[1] for name in names if name.startswith("regard.")}
    assert ours == {"core", "backends", "scores", "alignments", "eager_names"}


@pytest.mark.parametrize("words", [["--version"], ["-h"], ["look", "--help"], ["train", "retrieval", "-h"]])
def test_the_help_of_the_command_needs_no_torch(words):
    code = f"""import sys
sys.argv = ["regard", *{words}]
from regard.cli.app import app
try:
    app()
except SystemExit as ended:
    assert not ended.code and "torch" not in sys.modules and "numpy" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_lazy_names_import_on_access_and_unknown_ones_raise():
    import regard

    assert set(regard.__all__) <= set(dir(regard))
    assert regard.nn is sys.modules["regard.nn"] and regard.judge is regard.judging.judge
    with pytest.raises(AttributeError, match="no attribute 'juge'"):
        _ = regard.juge


def test_how_it_fits_lists_every_room():
    house = (ROOT.parents[1] / "docs" / "how_it_fits.md").read_text(encoding="utf-8").split("## The house")[1]
    assert [one for one in BELOW if not re.search(rf"\b{one}\b", house)] == []


def private_parts(tree, package):
    """Dotted names of a package, used or imported in a file, with a part that is private."""

    def dotted(node):
        if isinstance(node, ast.Attribute):
            return (*dotted(node.value), node.attr)
        return (node.id,) if isinstance(node, ast.Name) else ("",)

    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.add(dotted(node))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {(*node.module.split("."), one.name) for one in node.names}
        elif isinstance(node, ast.Import):
            names |= {tuple(one.name.split(".")) for one in node.names}
    hidden = {"runtime", "compiler", "backends", "knobs"} if package == "triton" else set()
    ours = [name for name in names if name[0] == package]
    return {
        ".".join(name)
        for name in ours
        if any((part.startswith("_") and part[:2] != "__") or part in hidden for part in name)
    }


PRIVATE = {
    "torch": ("core/torch_private.py", {"torch.utils._python_dispatch.TorchDispatchMode"}),
    "triton": ("backends/triton/runtime/triton_private.py", {"triton.knobs"}),  # public since 3.4
}


@pytest.mark.parametrize("package", PRIVATE)
def test_private_parts_of_torch_and_triton_are_used_in_one_file_each(package):
    home, public_enough = PRIVATE[package]
    users = {
        str(path.relative_to(ROOT)): parts - public_enough
        for path in ROOT.rglob("*.py")
        if (parts := private_parts(ast.parse(path.read_text(encoding="utf-8")), package))
    }
    assert users.pop(home)
    assert not {path: parts for path, parts in users.items() if parts}


def test_what_triton_compiled_is_taken_apart_in_one_file():
    members = r"\.(packed_metadata|is_constexpr|do_not_specialize|launch_(enter|exit)_hook)\b"
    users = [path for path in ROOT.rglob("*.py") if re.search(members, path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in users] == [PRIVATE["triton"][0]]
