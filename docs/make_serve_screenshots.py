"""The screenshots of docs/see/serve.md, and the README's: python docs/make_serve_screenshots.py [folder]."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "images" / "see")
SERVE = [sys.executable, "-c", "from regard.cli.app import app; app()", "serve", "--no-browser"]


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The address of a server."""
    server = subprocess.Popen([*SERVE, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield re.sub(r"\s", "", server.stdout.readline())
    finally:
        server.terminate()
        server.wait(20)


def ready(page: Page, says: str) -> None:
    """Until the model has read, and the map is drawn."""
    page.locator("regard-output", has_text=says).wait_for(timeout=600_000)
    page.locator("regard-map canvas").first.wait_for()
    page.evaluate("scrollTo(0, 0)")
    page.mouse.move(5, 5)
    page.wait_for_timeout(2500)


def shoot(page: Page, name: str, scheme: str, high: int | None = None) -> None:
    clip = None if high is None else {"x": 0, "y": 0, "width": 1360, "height": high}
    page.screenshot(path=str(FOLDER / f"serve_{name}_{scheme}.png"), clip=clip)  # type: ignore[arg-type]


def minilm(page: Page, scheme: str) -> None:
    ready(page, "norm of the mean")
    page.locator("regard-page select[aria-label=Layer]").select_option("5")
    page.locator("regard-page select[aria-label=Head]").select_option("11")
    page.locator("regard-text span", has_text="it").first.click()
    page.mouse.move(5, 5)
    page.wait_for_timeout(800)
    shoot(page, "before", scheme)
    page.locator("regard-text span", has_text="animal").dblclick()
    ready(page, "The sentence embedding moved")
    shoot(page, "after", scheme)


def smollm(page: Page, scheme: str) -> None:
    ready(page, "Next token")
    page.locator("regard-live textarea").fill("Paris is the capital of France. Rome is the capital of")
    page.get_by_role("button", name="Run", exact=True).click()
    ready(page, "Italy")
    page.locator("regard-text span", has_text="Rome").dblclick()
    ready(page, "The top prediction")
    shoot(page, "next", scheme, 408)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp()
    look = {"width": 1360, "height": 1080}
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for model, drive, schemes in (("minilm", minilm, ("light", "dark")), ("smollm2", smollm, ("light",))):
            with serving("--model", model, "--folder", folder) as address:
                for scheme in schemes:
                    page = browser.new_page(viewport=look, color_scheme=scheme)  # type: ignore[arg-type]
                    page.goto(address)
                    drive(page, scheme)
                    page.close()
        browser.close()


if __name__ == "__main__":
    main()
