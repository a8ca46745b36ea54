"""The pictures of docs/see/terminal.md, what `regard show` prints: python docs/make_terminal_pictures.py [folder]."""

import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

from regard.recording.pretrained import record_text
from regard.views.terminal.terminal_show import show_record

TEXT = "The animal did not cross the street because it was too tired."
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images" / "see")
SHOWN = {"terminal_heads": {}, "terminal_head": {"head": "5.11"}, "terminal_row": {"head": "5.11", "row": 9}}


def main() -> None:
    file = record_text("minilm", TEXT).save(Path(tempfile.mkdtemp()) / "run.regard")
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, how in SHOWN.items():
            console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
            show_record(file, console, **how)
            asked = "".join(f" --{key} {value}" for key, value in how.items())
            photograph(browser, console, f"regard show run.regard{asked}", FOLDER / f"{name}.png")
        browser.close()


def photograph(browser: Browser, console: Console, title: str, path: Path) -> None:
    """What a console has recorded, as it looks in a terminal."""
    text = console.export_svg(title=title)
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    page = browser.new_page(viewport={"width": 1600, "height": 1200})
    page.set_content(f"<body style='margin:0'>{text}")
    page.locator("svg").first.screenshot(path=str(path))
    page.close()


if __name__ == "__main__":
    main()
