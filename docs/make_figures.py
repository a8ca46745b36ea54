"""Runs the code on docs/see/figures.md and keeps the figures it saves: python docs/make_figures.py."""

import os
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from PIL import Image

DOCS = Path(__file__).parent
WIDE = 1100  # pixels, enough for a page


def main() -> None:
    text = (DOCS / "see" / "figures.md").read_text(encoding="utf-8")
    folder = DOCS / "images" / "see"
    os.chdir(folder)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/see/figures.md", "exec"), names)
    for file in folder.glob("figure_*.png"):
        image = Image.open(file).convert("RGB")
        image.thumbnail((WIDE, 1400), Image.Resampling.LANCZOS)
        image.quantize(255, dither=Image.Dither.NONE).save(file, optimize=True)


if __name__ == "__main__":
    main()
