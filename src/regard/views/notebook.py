"""What a notebook shows of a map or a record: a page to point at, and a picture for whoever cannot run it.

A notebook that is read elsewhere (GitHub, nbconvert, an editor without widgets) shows the picture, which is saved in
it; nothing is fetched from a network.
"""

import io
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rich.console import Console

from .page import page_data
from .plotting import still
from .terminal_map import plain

if TYPE_CHECKING:
    from .widget import Page

STILL = "This picture stands still: pip install 'regard[views]' makes it a page to point at."
PAGE = "application/vnd.jupyter.widget-view+json"
DOTS = 96  # dots an inch; the picture has twice as many, for sharp screens


def widget(what: Any, **how: Any) -> "Page":
    """The page of a map or record as a widget; needs anywidget."""
    try:
        from .widget import Page
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"A widget needs {missing.name}: pip install 'regard[views]'. show() without it is a "
                                  "picture, save_html(path) a page.", name=missing.name) from missing  # fmt: skip
    about, blobs = page_data(what, **how)
    return Page(about=about, blobs=blobs)


def show(what: Any, **how: Any) -> None:
    """In a notebook the page, in a terminal a drawing of characters."""
    if not in_notebook():
        Console().print(what)
        return
    from IPython.display import display

    data, about = mimebundle(what, **how)
    display(data, metadata=about, raw=True)


def mimebundle(what: Any, **how: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every form that a reader may choose from, and what is known about each: text, picture, page."""
    data: dict[str, Any] = {"text/plain": plain(what)}
    about: dict[str, Any] = {}
    if not in_notebook():
        return data, about
    with suppress(ModuleNotFoundError):  # without matplotlib the text stands for it
        data["image/png"], about["image/png"] = picture(what, item=how.get("item", 0))
    try:
        made = widget(what, **how)
        data[PAGE] = {"version_major": 2, "version_minor": 0, "model_id": made.model_id}
    except ModuleNotFoundError:
        print(STILL)
    except ValueError as problem:  # too large for a page
        print(problem)
    return data, about


def picture(what: Any, item: int = 0) -> tuple[bytes, dict[str, int]]:
    """A PNG of the head grid or the heat map, and its size on the screen. pyplot's figures are not touched."""
    figure = still(what, item)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=2 * DOTS)
    width, height = figure.get_size_inches()
    return file.getvalue(), {"width": round(DOTS * width), "height": round(DOTS * height)}


def in_notebook() -> bool:
    """Whether what is displayed goes to a notebook: IPython runs in a kernel."""
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
