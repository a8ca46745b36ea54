"""Pages of other viewers for the same weights, for `regard bench view`.

inspectus carries its script. BertViz fetches d3, jQuery and require.js from a network when its page is opened: here
they come from a folder of npm packages, so that it can be measured where there is no network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch import Tensor

SCRIPTS = {
    "d3.min.js": "d3/dist/d3.min.js",
    "jquery.min.js": "jquery/dist/jquery.min.js",
    "require.min.js": "requirejs/require.js",
}


# The middles of elements that are in sight, ten pixels apart.
ELEMENTS = """(() => { const made = []; let last = null;
  for (const element of document.querySelectorAll('%s')) {
    const box = element.getBoundingClientRect();
    if (box.width < 4 || box.top < 60 || box.bottom > innerHeight || box.right > innerWidth) continue;
    const place = [box.x + box.width / 2, box.y + box.height / 2];
    if (last && Math.hypot(place[0] - last[0], place[1] - last[1]) < 10) continue;
    made.push(last = place); if (made.length >= 200) break; }
  return made; })()"""


@dataclass
class OnePage:
    """A page to be measured: when it stands and where the pointer goes, as expressions of the page."""

    name: str
    file: Path
    drawn: str
    places: str


def bertviz_pages(weights: Sequence[Tensor], tokens: list[str], room: Path) -> list[OnePage]:
    """head_view and model_view of weights (1, heads, n, n) a layer."""
    import bertviz

    made = []
    for name, view in (("BertViz head_view", bertviz.head_view), ("BertViz model_view", bertviz.model_view)):
        file = room / f"{name.replace(' ', '_')}.html"
        file.write_text(view(weights, tokens, html_action="return").data, encoding="utf-8")
        places = ELEMENTS % "#left text" if "head" in name else "[]"  # a model_view answers clicks alone
        made.append(OnePage(name, file, "document.querySelector('#vis line') !== null", places))
    return made


def inspectus_page(weights: Tensor, tokens: list[str], room: Path) -> OnePage:
    """Of weights (layers, heads, n, n): what it would display, in one file."""
    import inspectus

    parts: list[str] = []
    with patch("IPython.display.display", lambda shown: parts.append(shown.data)):
        inspectus.attention(weights, tokens)
    file = room / "inspectus.html"
    file.write_text("<!doctype html><meta charset=utf-8><body>" + "\n".join(parts), encoding="utf-8")
    cells = len(tokens) ** 2
    drawn = f"document.querySelectorAll('svg rect').length >= {cells}"
    return OnePage("inspectus", file, drawn, ELEMENTS % "svg rect")


def answer(folder: Path | None, asked: list[str]) -> Any:
    """What a route of Playwright does with a request: a script from the folder, or nothing at all."""

    def handle(route: Any) -> None:
        asked.append(route.request.url)
        found = SCRIPTS.get(route.request.url.rpartition("/")[2])
        file = None if found is None or folder is None else folder / found
        if file is not None and file.is_file():
            route.fulfill(path=str(file), content_type="text/javascript")
        else:
            route.abort()

    return handle
