"""Tutorials are walked as their readers walk them; here the way of walking is tested, and the shortest is walked."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the pages draw with matplotlib: pip install 'regard[demo]'")
import typer

from regard.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
make_pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_pictures)

PAGE = """# A page

```toml title="made.toml"
size = 3
```

```python
import tomllib
from pathlib import Path

size = tomllib.loads(Path("made.toml").read_text())["size"]
print(f"{size * 1.1:.1f} of them")
```

```text
3.3 of them
```

```console
$ ls made.toml
made.toml
$ regard taxonomy softmax
softmax
...
class   regard.Softmax
```
"""


def page_of(text: str, folder: Path) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_files_code_and_commands_of_a_page_run_in_order_in_one_folder(tmp_path):
    make_pictures.check(page_of(PAGE, tmp_path))
    assert not (tmp_path / "made.toml").exists()  # the walk had a folder of its own


@pytest.mark.parametrize(
    "true, false",
    [
        ("3.3 of them", "3.3 of those"),
        ("3.3 of", "9.3 of"),
        ("\nmade.toml\n", "\nmede.toml\n"),
        ("Softmax\n", "Softmax\nmore\n"),
        ("\nsoftmax\n...", "\nsoftmin\n..."),
    ],
)
def test_a_page_that_shows_something_else_than_is_printed_is_refused(true, false, tmp_path):
    assert PAGE.count(true) == 1
    with pytest.raises(RuntimeError, match="this is what it printed"):
        make_pictures.check(page_of(PAGE.replace(true, false), tmp_path))


def test_a_command_that_fails_ends_the_walk(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)did you mean softmax.*ended with 1"):
        make_pictures.check(page_of(PAGE.replace("taxonomy softmax", "taxonomy sofmax"), tmp_path))


def test_what_is_not_shown_is_left_out_only_where_dots_stand():
    assert make_pictures.said("$ a\none 1\ntwo 2\nthree 3\n", "$ a\none 5\n...\nthree 7\n")
    assert make_pictures.said("$ a\none 1\ntwo 2\n", "$ a\none 5\n...\n")
    assert not make_pictures.said("$ a\none 1\ntwo 2\n", "$ a\none 1\n")
    assert not make_pictures.said("$ a\none 1\ntwo 2\n", "$ a\n...\ntwo 2\nthree 3\n")
    assert make_pictures.said("┏━━━┓\n┃ a ┃\n└───┘\n", "┏━━━━━┓\n┃ a   ┃\n└─────┘\n")


def test_the_learners_walk_prints_what_its_page_shows():
    make_pictures.check(DOCS / "tutorials" / "learner.md")


@pytest.mark.parametrize("page", make_pictures.tutorials(), ids=lambda page: page.stem)
def test_every_command_of_a_tutorial_is_one_that_there_is(page):
    """Also of those that a build does not run, since they need data or a browser."""
    text = page.read_text(encoding="utf-8")
    typed = [
        line
        for block in re.findall(r"^```(?:console|text)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in re.findall(r"^(?:\$ )?(regard (?:.*\\\n)*.*)", block, re.MULTILINE)
    ]
    for line in typed:
        command, arguments = typer.main.get_command(app), shlex.split(line.replace("\\\n", " "), comments=True)[1:]
        context = typer.Context(command, info_name="regard")
        while hasattr(command, "resolve_command"):
            name, command, arguments = command.resolve_command(context, arguments)
            context = typer.Context(command, parent=context, info_name=name)
        command.make_context(name, list(arguments), parent=context)  # parsed, not run


@pytest.mark.parametrize("page", make_pictures.tutorials(), ids=lambda page: page.stem)
def test_every_picture_of_a_tutorial_is_there_and_small(page):
    found = make_pictures.KEPT.findall(page.read_text(encoding="utf-8"))
    assert found, f"{page.name} shows nothing"
    assert all((make_pictures.SAVED / name).stat().st_size < 300_000 for name in found)
