"""The screenshots of docs/tutorials: python docs/make_tutorial_screenshots.py [engineer] [researcher].

Tutorials that show a browser are walked first; what they left is opened, and pressed where their readers press.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from make_pictures import DOCS, SAVED, shrink, walk
from make_serve_screenshots import ready, serving
from playwright.sync_api import Browser, Page, sync_playwright

TEXT = "The soup was cold, but the waiter was friendly."
LOOK = {"width": 1360, "height": 1000}


def keep(page: Page, name: str, folder: Path) -> None:
    page.screenshot(path=str(folder / f"{name}.png"))
    shrink(folder / f"{name}.png", SAVED / f"{name}.png", 1360)


def engineer(browser: Browser, folder: Path, head: str = "2.7") -> None:
    """The application before and after a head is made uniform, and the report."""
    with serving("--model", str(folder / "reviews-model"), "--folder", str(folder)) as address:
        page = browser.new_page(viewport=LOOK)  # type: ignore[arg-type]
        page.set_default_timeout(300_000)
        page.goto(address)
        ready(page, "positive")  # what it reads first, by itself
        page.locator("regard-live textarea").fill(TEXT)
        page.get_by_role("button", name="Run", exact=True).click()
        ready(page, "positive")
        layer, number = head.split(".")
        page.locator("regard-page select[aria-label=Site]").select_option(layer)
        page.locator("regard-page select[aria-label=Head]").select_option(number)
        page.locator("regard-text span", has_text="[CLS]").first.click()
        page.mouse.move(5, 5)
        page.wait_for_timeout(800)
        keep(page, "engineer_before", folder)
        page.get_by_role("button", name=f"make head {head} uniform").click()
        page.locator("regard-live .changes", has_text=f"head {head} uniform").wait_for(timeout=60_000)
        ready(page, "positive")
        keep(page, "engineer_after", folder)
        page.close()
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto((folder / "report" / "report.html").as_uri())
    keep(page, "engineer_report", folder)
    page.close()


def researcher(browser: Browser, folder: Path) -> None:
    """The page of the study."""
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto((folder / "scores-report" / "report.html").as_uri())
    keep(page, "researcher_report", folder)
    page.close()


def main() -> None:
    SAVED.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for drive in (engineer, researcher):
            if len(sys.argv) > 1 and drive.__name__ not in sys.argv[1:]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                for _ in walk(DOCS / "tutorials" / f"{drive.__name__}.md", Path(folder)):
                    pass
                drive(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
