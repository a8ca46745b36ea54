"""How a page is driven and read from a browser test."""

import pytest

MAP = "document.querySelector('regard-page').shadowRoot.querySelector('regard-map')"

COPIED = """canvas => { const copy = document.createElement('canvas'), context = copy.getContext('2d');
    [copy.width, copy.height] = [canvas.width, canvas.height]; context.drawImage(canvas, 0, 0);
    return context.getImageData(0, 0, copy.width, copy.height).data; }"""  # the pixels, read of a copy


def until(page, what: str, of: str = MAP) -> None:
    """Until the map has something; by asking, since the page's policy forbids what wait_for_function does."""
    for _ in range(2400):
        if page.evaluate(f"Boolean({of}?.{what})"):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"The page never had {what}.")


def eventually(page, read, wanted) -> None:
    """What is read becomes what is wanted, as soon as the machine gets to it."""
    for _ in range(2400):
        if read() == wanted:
            return
        page.wait_for_timeout(25)
    assert read() == wanted


def choice(page) -> dict:
    return page.evaluate("document.querySelector('regard-page').store.choice")


def number(text: str) -> float:
    """As a page writes it."""
    return float(text.replace("−", "-").replace("+", "").replace("≈ ", ""))


def told(page) -> float:
    """The weight that the map tells: four decimals, or three digits of a small one."""
    return number(page.locator("regard-map .here b").inner_text())


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
