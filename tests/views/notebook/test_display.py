"""Maps and records in a notebook: what a kernel is handed, and a real JupyterLab in a real browser."""

import base64
import re
import shutil
import subprocess
import sys

import pytest
from tests.views.driving import eventually
from tests.views.jupyter import serving

import regard
from regard.views.notebook import display

WORDS = ["[CLS]", "the", "keeper", "lit", "the", "lamp", "</script>", "because", "it", "$was_", "猫", "[SEP]"]
MADE = f"""
import torch, regard
torch.manual_seed(2)
with regard.record() as rec:
    for _ in range(2):
        q = 2 * torch.randn(1, 3, {len(WORDS)}, 8)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
_ = rec.label(tokens={WORDS!r})
"""


PAGE = "application/vnd.jupyter.widget-view+json"


def made() -> regard.Record:
    names: dict = {}
    exec(MADE, names)
    return names["rec"]


@pytest.fixture
def kernel(monkeypatch):
    """As in a kernel: IPython says that its shell has one."""
    ipython = pytest.importorskip("IPython", reason="IPython is not installed: there are no notebooks.")
    shell = type("Shell", (), {"kernel": None})()
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell)


def test_a_kernel_gets_the_page_a_picture_and_text(kernel):
    pytest.importorskip("anywidget", reason="anywidget is not installed: a notebook shows the picture alone.")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: there is no picture.")
    for what in (made(), next(iter(made().maps.values()))):
        data, about = what._repr_mimebundle_()
        assert set(data) == {"text/plain", "image/png", PAGE}
        assert data["image/png"].startswith(b"\x89PNG")
        width = int.from_bytes(data["image/png"][16:20])
        assert width == pytest.approx(2 * about["image/png"]["width"], abs=2)  # sharp on sharp screens
        assert "@" in data["text/plain"]


def test_the_widget_carries_what_a_page_carries():
    pytest.importorskip("anywidget", reason="anywidget is not installed: there are no widgets.")
    from regard.views.page import page_data

    rec = made()
    widget = rec.widget(title="Two layers")
    assert (widget.about, widget.blobs) == page_data(rec, title="Two layers")
    assert widget.choice is None
    site = list(rec.maps)[1]
    widget.choose(site=site, head=2, row=-1, column=4)
    assert widget.choice == (site, 2, len(WORDS) - 1, 4, True)
    widget.choose(row=3)
    assert widget.choice == (site, 2, 3, 4, True)
    with pytest.raises(ValueError, match=r"choose\(site='none'\): this page has"):
        widget.choose(site="none")
    for wrong in ({"site": 2}, {"head": 3}, {"row": 12}, {"column": -13}):
        with pytest.raises(IndexError, match=rf"choose\({next(iter(wrong))}=.*expected -\d+ to \d+"):
            widget.choose(**wrong)


def test_without_anywidget_there_is_the_picture_and_one_sentence(kernel, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "regard.views.notebook.widget", raising=False)
    data, _ = made()._repr_mimebundle_()
    assert "image/png" in data and PAGE not in data
    assert capsys.readouterr().out.strip() == display.NO_WIDGET_NOTE
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'regard\[views\]'"):
        made().widget()


def test_outside_a_kernel_it_is_text_and_show_prints_it(capsys):
    amap = next(iter(made().maps.values()))[0, 1]
    assert amap._repr_mimebundle_() == ({"text/plain": str(amap)}, {})
    amap.show()
    assert "keeper" in capsys.readouterr().out


def test_what_is_too_large_for_a_page_is_shown_as_a_picture(kernel, monkeypatch, capsys):
    monkeypatch.setattr("regard.views.page.MAX_PAGE_BYTES", 100)
    assert "image/png" in made()._repr_mimebundle_()[0]
    assert "Show fewer sites" in capsys.readouterr().out


def test_core_draws_nothing_until_it_is_asked():
    code = "import sys, regard; print([x for x in sys.modules if x.startswith(('regard.views', 'matplotlib', 'rich'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# JupyterLab

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A folder with a display, and a JupyterLab that has it open to this machine alone."""
    for name in ("jupyterlab", "anywidget", "ipykernel", "playwright"):
        pytest.importorskip(name, reason=f"{name} is not installed: the notebook is not tried in JupyterLab.")
    if CHROMIUM is None:
        pytest.skip("There is no Chromium on this machine: the notebook is not tried in JupyterLab.")
    room = tmp_path_factory.mktemp("lab")
    with serving(
        room, [MADE + "rec", "widget = rec.widget()\nwidget", "print('chosen', tuple(widget.choice))"]
    ) as address:
        yield address, room


SPOT = """([which, i, j]) => {
    const map = document.querySelectorAll('regard-page')[which].shadowRoot.querySelector('regard-map');
    map.scrollIntoView({block: 'center'});
    const box = map.shadowRoot.querySelector('canvas').getBoundingClientRect(), f = map.frameBox, v = map.view;
    return [box.x + f.left + (j + .5 - v.x) * v.scale, box.y + f.upper + (i + .5 - v.y) * v.scale * v.tall]; }"""


CHOICE = "which => document.querySelectorAll('regard-page')[which].store.choice"


def pointed_at(page, which: int, i: int, j: int) -> None:
    """Moves the pointer to a pair of a map until the page has said twice that it is there: a notebook that lays itself
    out moves what it shows."""
    seen = 0
    for _ in range(300):
        page.mouse.move(*page.evaluate(SPOT, [which, i, j]))
        page.wait_for_timeout(100)
        choice = page.evaluate(CHOICE, which)
        seen = seen + 1 if (choice["row"], choice["column"]) == (i, j) else 0
        if seen == 2:
            return
    pytest.fail(f"Page {which} never said that the pointer is at ({i}, {j}), but {choice}.")


def close_what_it_says(dialog) -> None:
    """A busy JupyterLab may say something before it lets anyone work: told where the test fails, and closed."""
    print("JupyterLab says:", dialog.inner_text())
    dialog.locator(".jp-Dialog-footer button").last.click()


def shown_by(page, which: int) -> None:
    """Run a cell until its page is there: JupyterLab drops a key that comes before its notebook listens."""
    from playwright.sync_api import TimeoutError, expect

    cell = page.locator(".jp-CodeCell").nth(which)
    for _ in range(40):
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        try:
            expect(cell.locator(".jp-InputPrompt")).not_to_have_text(re.compile(r"\[ \]"), timeout=1500)
            break  # it was heard: the cell runs, or has run
        except AssertionError:
            continue
    try:
        page.wait_for_function(f"document.querySelectorAll('regard-page').length > {which}")
    except TimeoutError:
        pytest.fail(f"No page came of cell {which}, which says: {cell.inner_text()[-300:]}")


def test_jupyterlab_shows_a_record_to_point_at_python_reads_the_choice_and_nbconvert_has_the_picture(lab):
    from playwright.sync_api import sync_playwright

    address, room = lab
    asked: list[str] = []
    with sync_playwright() as run:
        browser = run.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1500, "height": 1300})
            page.set_default_timeout(90_000)
            page.on("request", lambda request: asked.append(request.url))
            page.add_locator_handler(page.locator("dialog.jp-Dialog"), close_what_it_says)
            page.goto(address)
            idle = page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
            idle.wait_for()
            cells = page.locator(".jp-CodeCell")
            for which in range(2):
                shown_by(page, which)
                idle.wait_for()
                page.wait_for_function(
                    f"document.querySelectorAll('regard-page')[{which}].shadowRoot"
                    ".querySelector('regard-map')?.ready === true"
                )
            rec = made()
            pointed_at(page, 0, 8, 2)
            first = page.locator("regard-page").nth(0)
            first.locator(".readout", has_text="“it” (8) attends to “keeper” (2):").wait_for()
            chosen = page.evaluate(CHOICE, 0)
            weight = list(rec.maps.values())[chosen["site"]].weights()[0, chosen["head"], 8, 2]
            assert float(first.locator(".readout b").inner_text().replace("−", "-")) == pytest.approx(
                float(weight), rel=6e-3
            )
            pointed_at(page, 1, 3, 5)
            page.mouse.down()
            page.mouse.up()
            for key in ("ArrowDown", "0", "0", "d", "d"):  # keys of the map, and of no notebook
                page.keyboard.press(key)
            cells.nth(2).locator(".cm-content").click()
            assert cells.count() == 3 and "#" not in page.url
            page.keyboard.press("Shift+Enter")  # at once: what was chosen is known to Python all the same
            said = cells.nth(2).locator(".jp-OutputArea-output").inner_text()
            site = list(rec.maps)[page.evaluate(CHOICE, 1)["site"]]
            assert re.fullmatch(rf"chosen \('{re.escape(site)}', \d, 4, 5, True\)", said.strip())
            page.keyboard.press("Control+s")
            eventually(page, lambda: (room / "book.ipynb").read_text().count('"image/png": "'), 2)
        finally:
            print((room / "log").read_text()[-3000:])  # told where the test fails
            browser.close()
    here = address.partition("/lab")[0]
    assert [url for url in asked if not url.startswith((here, "data:", "blob:"))] == []
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed: its page is not looked at.")
    text, _ = nbconvert.HTMLExporter().from_filename(str(room / "book.ipynb"))
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert len(found) == 2 and all(base64.b64decode(one).startswith(b"\x89PNG") for one in found)
