"""How a page is driven and read from a browser test."""

import inspect
import time
from collections.abc import Callable
from typing import Any

WITHIN = 60.0  # seconds, of a machine that is slow and has other things to do

MAP = "document.querySelector('regard-page').shadowRoot.querySelector('regard-map')"

COPIED = """canvas => { const copy = document.createElement('canvas'), context = copy.getContext('2d');
    [copy.width, copy.height] = [canvas.width, canvas.height]; context.drawImage(canvas, 0, 0);
    return context.getImageData(0, 0, copy.width, copy.height).data; }"""  # the pixels, read of a copy


def eventually(page, read: Callable[[], Any], wanted: Any = True) -> Any:
    """What is read becomes what is wanted, or such as wanted(found) holds of, as soon as the machine gets to it.

    Nothing in these tests waits for a time: an action is followed by what is to come of it, asked for until it is so.
    """
    last = time.monotonic() + WITHIN
    while True:
        late = time.monotonic() > last
        try:
            found = read()
        except Exception:  # what is read may not be there yet
            if late:
                raise
        else:
            if wanted(found) if callable(wanted) else found == wanted:
                return found
            assert not late, f"It stayed {found!r}; wanted was {source(wanted)}"
        page.wait_for_timeout(20)


def source(wanted: Any) -> str:
    """As it is told where a test fails."""
    return inspect.getsource(wanted).strip() if callable(wanted) else repr(wanted)


def until(page, what: str, of: str = MAP) -> None:
    """Until a part has something; by asking, since the page's policy forbids what wait_for_function does."""
    eventually(page, lambda: page.evaluate(f"Boolean({of}?.{what})"))


def says(locator, text: str):
    """The first of what is found, once it says this."""
    eventually(locator.page, lambda: locator.first.inner_text(timeout=1000), lambda said: text in said)
    return locator.first


def drawn(page, which: str = "regard-page") -> None:
    """All that was asked of the page until now is drawn: for what must not change, since there is nothing to wait for.

    A map that was asked for is there after some turns, what it says one turn later, its picture one frame later.
    """
    page.locator(which).evaluate("""async (shown) => {
        const parts = [...shown.shadowRoot.querySelectorAll('*')];
        for (let turn = 0; turn < 4; turn++) {
            await new Promise(requestAnimationFrame);
            await Promise.all(parts.map(part => part.updateComplete));
        } }""")


def choice(page) -> dict:
    return page.evaluate("document.querySelector('regard-page').store.choice")


def number(text: str) -> float:
    """As a page writes it."""
    return float(text.replace("−", "-").replace("+", "").replace("≈ ", ""))


def told(page) -> float:
    """The weight that the map tells: four decimals, or three digits of a small one."""
    return number(page.locator("regard-map .readout b").inner_text())


def spot(page, i, j) -> tuple[float, float]:
    """Where a weight stands on the screen."""
    return tuple(
        page.evaluate(
            """([i, j]) => {
        const map = document.querySelector('regard-page').shadowRoot.querySelector('regard-map');
        const box = map.shadowRoot.querySelector('canvas').getBoundingClientRect(), f = map.frameBox, v = map.view;
        return [box.x + f.left + (j + .5 - v.x) * v.scale, box.y + f.upper + (i + .5 - v.y) * v.scale * v.tall]; }""",
            [i, j],
        )
    )
