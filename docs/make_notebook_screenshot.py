"""Screenshots of notebooks in JupyterLab: python docs/make_notebook_screenshot.py [record] [learner].

record    a record that shows itself, for docs/see/notebook.md
learner   the last cell of docs/five_tokens.ipynb with another number, for docs/tutorials/learner.md
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "views"))

from jupyter import serving  # noqa: E402

IMAGES = ROOT / "docs" / "images"
CELL = """from regard.recording.pretrained import record_text

rec = record_text("minilm", "The animal did not cross the street because it was too tired.")
rec"""


def record(page: Page, address: str, room: Path) -> None:
    page.set_viewport_size({"width": 1500, "height": 1180})
    page.goto(address)
    page.locator(".jp-CodeCell .cm-content").click()
    page.keyboard.press("Shift+Enter")
    page.locator("regard-page regard-map canvas").wait_for()
    page.keyboard.press("Control+b")  # the list of files aside
    page.mouse.move(5, 600)
    page.wait_for_timeout(2500)
    page.screenshot(path=str(IMAGES / "see" / "notebook.png"))


def learner(page: Page, address: str, room: Path) -> None:
    """Run all cells, change the number, run that cell."""
    shutil.copy(ROOT / "docs" / "five_tokens.ipynb", room / "book.ipynb")
    page.set_viewport_size({"width": 1400, "height": 1000})
    page.goto(address)
    idle = page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    idle.wait_for()
    page.wait_for_timeout(3000)  # it listens a little later
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    last = page.locator(".jp-CodeCell").last
    page.wait_for_timeout(3000)  # until it has begun
    idle.wait_for()
    last.locator(".cm-line", has_text="the number to change").click()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.type("Y[0, 0] = -4  # the number to change")
    page.keyboard.press("Shift+Enter")
    last.locator(".jp-OutputArea", has_text="0.1283").wait_for()
    page.wait_for_timeout(1500)
    last.screenshot(path=str(IMAGES / "tutorials" / "learner_notebook.png"))


def main() -> None:
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for drive in (record, learner):
            if len(sys.argv) > 1 and drive.__name__ not in sys.argv[1:]:
                continue
            room = Path(tempfile.mkdtemp())
            with serving(room, [CELL]) as address:
                page = browser.new_page()
                page.set_default_timeout(150_000)
                drive(page, address, room)
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
