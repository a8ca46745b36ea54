"""Pages measured in a browser: what is told of one that draws, and of one that never does."""

import shutil

import pytest

from regard.lab.bench import view
from regard.lab.bench.view_peers import ELEMENTS, OnePage

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no page is measured.")
pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, view.BROWSERS)), reason="There is no Chromium on this machine: no page is measured."
)

SLOW = """<!doctype html><body style="padding-top: 80px"><b>a</b><script>
const wait = (ms) => { const end = performance.now() + ms; while (performance.now() < end); };
setTimeout(() => { wait(400); document.body.append(document.createElement('i')); });
document.querySelector('b').addEventListener('mousemove', () => wait(300));</script>"""


def test_the_first_draw_and_the_pointer_are_timed_from_when_they_were_asked_to_what_was_seen(tmp_path):
    file = tmp_path / "slow.html"
    file.write_text(SLOW)
    seen = view.seen(OnePage("slow", file, "document.querySelector('i') !== null", ELEMENTS % "b"))
    assert (seen.bytes, seen.why) == (len(SLOW), "")
    assert seen.memory is None or 10 < seen.memory < 4000
    assert seen.draw >= 0.4 and len(seen.points) == 1 and seen.points[0] >= 300


def test_a_page_that_never_draws_is_ended_and_said(tmp_path):
    file = tmp_path / "never.html"
    file.write_text("<!doctype html><p>")
    seen = view.seen(OnePage("never", file, "false", "[]"), limit=6)
    assert (seen.draw, seen.points, seen.why) == (None, [], "nothing was drawn after 6 s")


def test_a_page_that_asks_the_network_gets_its_scripts_from_a_folder_or_nothing(tmp_path):
    (tmp_path / "d3/dist").mkdir(parents=True)
    (tmp_path / "d3/dist/d3.min.js").write_text("document.body.append(document.createElement('i'))")
    file = tmp_path / "asks.html"
    far = "https://cdnjs.cloudflare.com/ajax/libs/d3/5.7.0/d3.min.js"
    file.write_text(
        f"<!doctype html><body><script src='{far}'></script><script src='https://example.org/x.js'></script>"
    )
    seen = view.seen(OnePage("asks", file, "document.querySelector('i') !== null", "[]"), tmp_path)
    assert seen.why == "" and seen.asked == [far, "https://example.org/x.js"]
