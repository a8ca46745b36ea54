"""The screenshots of docs/judge/report.md, from reports that `regard judge` wrote.

python docs/make_report_screenshots.py SENTENCES/report.html REVIEWS/report.html
python docs/make_report_screenshots.py MOLECULES/report.html          the one of docs/judge/graphs.md
"""

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent / "images" / "judge"


def part(page: Page, selector: str, name: str) -> None:
    page.locator(selector).first.screenshot(path=str(FOLDER / f"report_{name}.png"))


def graphs(report: Path) -> None:
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 1000})
        page.goto(report.resolve().as_uri())
        page.screenshot(path=str(FOLDER / "report_graph.png"))
        browser.close()


def main() -> None:
    sentences, reviews = (Path(name).resolve().as_uri() for name in sys.argv[1:3])
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 1000})
        page.goto(sentences)
        page.screenshot(path=str(FOLDER / "report_first.png"))
        part(page, "#correlation figure.drawn", "tau")
        part(page, "#permutation figure.drawn", "permutation")
        part(page, "#adversary figure.drawn", "curve")
        part(page, "#adversary .example", "adversary")
        page.goto(reviews)
        part(page, "#rationales .example", "rationale")
        dark = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        dark.goto(sentences)
        dark.screenshot(path=str(FOLDER / "report_phone.png"))
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        graphs(Path(sys.argv[1]))
    else:
        main()
