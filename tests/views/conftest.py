"""A real browser for the tests that ask for one; they are left out, with a sentence, where there is none."""

import shutil

import pytest
from tests.views.driving import until

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
GRAPHICS = "GL Driver Message"  # a remark of the machine's graphics on how fast it is, not of the page


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("There is no Chromium on this machine: browser tests left out.")
    left = "playwright is not installed: browser tests left out."
    playwright = pytest.importorskip("playwright.sync_api", reason=left)
    with playwright.sync_playwright() as run:
        made = run.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def opened(browser, tmp_path):
    """A page in the browser that has said nothing on the console and asked nobody for anything."""
    said, pages = [], []

    def show(what, scheme="light", touch=False, **how):
        file = what.save_html(tmp_path / "page.html", **how)
        page = browser.new_page(viewport={"width": 1300, "height": 1000}, color_scheme=scheme, has_touch=touch)
        page.on("console", lambda message: None if GRAPHICS in message.text else said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda ask: said.append(ask.url) if not ask.url.startswith(("file:", "data:")) else None)
        page.goto(file.as_uri())
        until(page, "ready")
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
    assert said == []
