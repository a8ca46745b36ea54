"""The screenshot of docs/see/notebook.md, a record in JupyterLab: python docs/make_notebook_screenshot.py [folder]."""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "views"))

from jupyter import serving  # noqa: E402

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "images" / "see")
CELL = """from regard.recording.models import record_text

rec = record_text("minilm", "The animal did not cross the street because it was too tired.")
rec"""


def main() -> None:
    with serving(Path(tempfile.mkdtemp()), [CELL]) as address, sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 1180})
        page.set_default_timeout(90_000)
        page.goto(address)
        page.locator(".jp-CodeCell .cm-content").click()
        page.keyboard.press("Shift+Enter")
        page.locator("regard-page regard-map canvas").wait_for()
        page.keyboard.press("Control+b")  # the list of files aside
        page.get_by_role("button", name="No", exact=True).click()  # no news
        page.mouse.move(5, 600)
        page.wait_for_timeout(2500)
        page.screenshot(path=str(FOLDER / "notebook.png"))
        browser.close()


if __name__ == "__main__":
    main()
