"""Every command that a message, a page or the documentation tells somebody to type is there."""

import ast
import re
from pathlib import Path

import pytest
import typer

from regard.cli.app import app

ROOT = Path(__file__).parents[2]
TREE = typer.main.get_command(app)
NAMED = re.compile(r"(?<![.\w/])regard((?: [a-z][a-z_-]*)+)((?:[^\n`<·]*?(?<![\w-])--?[a-z][a-z-]*)*)")
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
# What is no command: the form of a file, Python, English.
OTHERS = {"checkpoint", "import", "to", "is", "for", "as", "of"}


def strings(path: Path) -> list[str]:
    """The string literals of a module, f-strings with X for what is filled in; of other files all of it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [text]
    made = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            made.append("".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            made.append(node.value)
    return made


def options(command) -> set[str]:
    """Of a command, or of any command of a group."""
    own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    return own.union(*(options(inner) for inner in getattr(command, "commands", {}).values()))


def wrong(text: str) -> list[str]:
    """What a text names that does not exist."""
    made = []
    for found in NAMED.finditer(text):
        words, command = found[1].split(), TREE
        if words[0] in OTHERS:
            continue
        if words[0] not in TREE.commands:
            made.append(f"regard {words[0]}")
            continue
        for word in words:
            command = getattr(command, "commands", {}).get(word, command)
        made += [f"regard {' '.join(words)} {one}" for one in OPTION.findall(found[2]) if one not in options(command)]
    return made


@pytest.mark.parametrize(
    ("where", "endings"),
    [
        ("src/regard", (".py", ".html", ".toml")),
        ("web/src", (".ts",)),
        ("docs", (".md",)),
        ("README.md", (".md",)),
        ("CONTRIBUTING.md", (".md",)),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_commands_and_options_that_are_named_exist(where, endings):
    place = ROOT / where
    if not place.exists():
        pytest.skip(f"There is no {where} beside these tests.")
    files = [place] if place.is_file() else [path for path in sorted(place.rglob("*")) if path.suffix in endings]
    files = [path for path in files if "node_modules" not in path.parts]
    found = [f"{path.relative_to(ROOT)}: {one}" for path in files for text in strings(path) for one in wrong(text)]
    assert not found, "\n".join(found)


def test_what_is_not_there_is_found():
    assert wrong("type regard recrod minilm") == ["regard recrod"]
    assert wrong('<code>regard record --model minilm --text "a" -o x</code>') == [
        "regard record --model",
        "regard record --text",
    ]
    assert wrong("`regard study run quick --out a` and regard train --out") == []
