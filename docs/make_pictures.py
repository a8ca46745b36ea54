"""Runs the code on the pages of mechanisms, examples and tutorials: draws their pictures and writes what they print.

    python docs/make_pictures.py                 every page
    python docs/make_pictures.py softmax local   some

A page's Python blocks run in order, in one namespace; what a block prints stands in the text block right after it.
The figure that the first block leaves becomes the page's picture (images/mechanisms or graph/<page>.png), with a
fingerprint of that block inside. Tests run the same code and compare both, so a page cannot drift from what it shows.

A tutorial is walked as its reader walks it, in an empty folder: a block with title="name" is a file that is written, a
console block is commands (after "$ ") over what they print, and the pictures that the code saves there are kept
(images/tutorials/<name>.png). The site's build walks every tutorial and fails where something else is printed.
"""

import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from regard.core.alignments import ALIGNMENTS
from regard.core.scores import SCORES
from regard.judging.registry import ENLISTED
from regard.judging.suite import all_tests
from regard.views.figures import FIGURES

DOCS = Path(__file__).parent
PICTURES, SAVED = DOCS / "images" / "mechanisms", DOCS / "images" / "tutorials"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<printed>.*?)```\n)?", re.DOTALL)
STEP = re.compile(  # of a tutorial: a file, Python with what it prints, or commands with what they print
    r'^```(?:\w+ title="(?P<file>[\w.-]+)"|(?P<python>python)|console)\n(?P<code>.*?)^```\n'
    r"(?(python)(?:\n```text\n(?P<printed>.*?)^```\n)?)",
    re.DOTALL | re.MULTILINE,
)
FIGURE = re.compile(r"!\[[^\]]*\]\(\.\./images/(?P<room>mechanisms|graph)/(?P<name>[\w-]+\.png)\)")
KEPT = re.compile(r"\]\(\.\./images/tutorials/(?P<name>[\w-]+\.png)\)")
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
NOTHING = 1e-5  # what a page prints as a rounding error
DOTS = re.compile(r"^\s*\.\.\.\s*$", re.MULTILINE)
FRAME = re.compile(r"[─━│┃┏┓┗┛┡┩└┘├┤┼┬┴┳┻╇╈]+")
WIDE, HOME = 110, "~/walk"  # columns of the terminal, and the folder that a tutorial is walked in, as pages show them


def pages() -> list[Path]:
    return sorted([*(DOCS / "mechanisms").glob("*.md"), *(DOCS / "examples").glob("*.md")])


def graph_layers() -> list[Path]:
    """Pages of graph layers that have a picture; tests/nn/graph/test_pages.py runs the code of all of them."""
    return [page for page in sorted((DOCS / "graph").glob("*.md")) if FIGURE.search(page.read_text(encoding="utf-8"))]


def trained() -> list[Path]:
    """Pages that train a model: what they print depends a little on the machine."""
    return [DOCS / "judge" / "shortcut.md"]


def tutorials() -> list[Path]:
    return sorted((DOCS / "tutorials").glob("*.md"))


def blocks(page: Path) -> list[re.Match[str]]:
    return list(BLOCK.finditer(page.read_text(encoding="utf-8")))


def fingerprint(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def run(code: str, page: Path, names: dict[str, Any]) -> str:
    """What the block prints; names keeps what it defines."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, f"{page.name}", "exec"), names)
    return printed.getvalue()


def alike(found: str, shown: str, slack: float = 0.02) -> bool:
    """The same words, and numbers that differ by no more than another machine may make them."""
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", shown).split():
        return False
    for a, b in zip(NUMBER.findall(found), NUMBER.findall(shown), strict=True):
        x, y = (float(number.replace(",", "")) for number in (a, b))
        if abs(x) < NOTHING and abs(y) < NOTHING:
            continue
        room = slack if "." in b else 3.0 if "%" in shown else 0.0
        if abs(x - y) > room + 0.1 * abs(y):
            return False
    return True


def said(found: str, shown: str) -> bool:
    """The same words in the same order, whatever the numbers and the frames of tables; "..." stands for any lines."""

    def words(text: str) -> str:
        return " ".join(NUMBER.sub("#", FRAME.sub(" ", text)).split())

    parts = [re.escape(words(part)) for part in re.split(DOTS, shown)]
    return re.fullmatch(r"\s*(?:.*\s)?".join(parts) + r"\s*", f"{words(found)} ") is not None


# tutorials


@contextmanager
def walking(folder: Path) -> Iterator[None]:
    """In the reader's folder, with the reader's terminal, and no data but those that a page makes; what a page enlists
    is gone after it."""
    before, environment, path = Path.cwd(), dict(os.environ), list(sys.path)
    all_tests()  # judges are enlisted when they are first asked for: what is there must be there before it is noted
    there = [
        (names, dict(names))
        for names in (*vars(SCORES).values(), *vars(ALIGNMENTS).values(), ENLISTED, FIGURES)
        if isinstance(names, dict)
    ]
    os.environ |= {
        "COLUMNS": str(WIDE),
        "TERM": "dumb",
        "MPLBACKEND": "Agg",
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    os.environ.pop("REGARD_DATA", None)
    os.chdir(folder)
    sys.path_importer_cache.pop(".", None)  # it is where the page before was walked
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        for names, known in there:
            names.clear()
            names.update(known)


def walk(page: Path, folder: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Every step of a tutorial with what it prints."""
    names: dict[str, Any] = {"__name__": "page"}
    plt.close("all")
    with walking(folder):
        for step in STEP.finditer(page.read_text(encoding="utf-8")):
            if step["file"]:
                Path(step["file"]).write_text(step["code"], encoding="utf-8")
            elif step["python"]:
                yield step, run(step["code"], page, names)
            else:
                made = [f"$ {command}\n{typed(command)}" for command in commands(step["code"])]
                yield step, "".join(made).replace(str(folder.resolve()), HOME)
    plt.close("all")


def commands(code: str) -> list[str]:
    """What stands after a prompt; a line that ends in a backslash goes on."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)", code, re.MULTILINE)


STAGE = re.compile(r" *\d+ s  \S")  # what a command says of its stages in a log; in a terminal a bar stands there


def typed(command: str) -> str:
    """What a command prints. One of ours runs here, so that torch is imported once; it must not fail."""
    first, *rest = shlex.split(command.replace("\\\n", " "), comments=True)
    if first == "regard":
        from typer.testing import CliRunner

        from regard.cli.app import app

        result = CliRunner().invoke(app, rest)
        code, output = result.exit_code, result.output
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
    else:
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        code, output = done.returncode, done.stdout
    if code:
        raise RuntimeError(f"$ {command}\n{output}\nended with {code}.")
    lines = (line.rstrip() for line in output.strip("\n").splitlines())
    return "".join(f"{line}\n" for line in lines if not STAGE.match(line))


def holds(step: re.Match[str], printed: str) -> bool:
    """Whether a step printed what its page shows."""
    if not step["python"]:
        return said(printed, step["code"])
    return alike(printed, step["printed"] or "", slack=0.2)  # pages that train: another machine, another model


def check(page: Path) -> None:
    """Walk a tutorial; where it prints something else than its page shows, say so."""
    with tempfile.TemporaryDirectory() as folder:
        for step, printed in walk(page, Path(folder)):
            if not holds(step, printed):
                raise RuntimeError(f"{page.name} shows\n\n{step[0]}\nand this is what it printed:\n\n{printed}")


def remake(page: Path) -> None:
    """Write what a tutorial prints now, and keep its pictures."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for step, printed in walk(page, Path(folder)):
            if holds(step, printed):
                continue
            if DOTS.search(step[0]):
                print(f"{page.name}: this is shown in part, so shorten it by hand:\n{printed}")
            elif not step["python"]:
                text = text.replace(step[0], f"```console\n{printed.rstrip()}\n```\n")
            else:
                shown = f"\n```text\n{printed.rstrip()}\n```\n" if printed.strip() else ""
                text = text.replace(step[0], f"```python\n{step['code']}```\n{shown}")
        SAVED.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys(KEPT.findall(text)):
            if (Path(folder) / name).is_file():
                shrink(Path(folder) / name, SAVED / name)
    page.write_text(text, encoding="utf-8")


def shrink(source: Path, target: Path, wide: int = 1100) -> None:
    """A picture as small as a page needs it."""
    image = Image.open(source).convert("RGB")
    image.thumbnail((wide, 2000), Image.Resampling.LANCZOS)
    image.quantize(255, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target.relative_to(DOCS)}  {target.stat().st_size / 1000:.0f} kB")


# mechanisms and examples


def save(target: Path, code: str) -> None:
    """The current figure as a small PNG: 128 colours are enough for cells and letters."""
    drawn, note = io.BytesIO(), PngInfo()
    plt.gcf().savefig(drawn, dpi=130)
    note.add_text("Code", code)
    Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(target, optimize=True, pnginfo=note)


def make(page: Path) -> None:
    text, names = page.read_text(encoding="utf-8"), {"__name__": "page"}
    plt.close("all")
    for place, block in enumerate(blocks(page)):
        printed = run(block["code"], page, names)
        if place == 0 and FIGURE.search(text):
            target = DOCS / "images" / page.parent.name / f"{page.stem}.png"
            target.parent.mkdir(exist_ok=True)
            save(target, fingerprint(block["code"]))
            print(f"{target.relative_to(DOCS)}  {target.stat().st_size / 1000:.0f} kB")
        if block["printed"] is not None:
            text = text.replace(block[0], f"```python\n{block['code']}```\n\n```text\n{printed.rstrip()}\n```\n")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = set(sys.argv[1:])
    for page in (*pages(), *graph_layers(), *trained(), *tutorials()):
        if not wanted or page.stem in wanted:
            (remake if page in tutorials() else make)(page)
