"""Runs the code on the pages of mechanisms and examples: draws their pictures and writes what they print.

    python docs/make_pictures.py                 every page
    python docs/make_pictures.py softmax local   some

A page's Python blocks run in order, in one namespace. The figure that the first block leaves becomes the page's picture
(images/mechanisms/<page>.png), with a fingerprint of that block inside; what a block prints replaces the text block
right after it. Tests run the same code and compare both, so a page cannot drift from what it shows.
"""

import hashlib
import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image
from PIL.PngImagePlugin import PngInfo

DOCS = Path(__file__).parent
PICTURES = DOCS / "images" / "mechanisms"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<printed>.*?)```\n)?", re.DOTALL)
FIGURE = re.compile(r"!\[[^\]]*\]\(\.\./images/mechanisms/(?P<name>[\w-]+\.png)\)")


def pages() -> list[Path]:
    return sorted([*(DOCS / "mechanisms").glob("*.md"), *(DOCS / "examples").glob("*.md")])


def trained() -> list[Path]:
    """Pages that train a model: what they print depends a little on the machine."""
    return [DOCS / "judge" / "shortcut.md"]


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
            target = PICTURES / f"{page.stem}.png"
            save(target, fingerprint(block["code"]))
            print(f"{target.relative_to(DOCS)}  {target.stat().st_size / 1000:.0f} kB")
        if block["printed"] is not None:
            text = text.replace(block[0], f"```python\n{block['code']}```\n\n```text\n{printed.rstrip()}\n```\n")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = set(sys.argv[1:])
    for page in (*pages(), *trained()):
        if not wanted or page.stem in wanted:
            make(page)
