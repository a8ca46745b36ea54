"""Display of maps and records in notebooks: an interactive widget, with a static image as fallback.

Viewers without widgets (GitHub, nbconvert, some editors) show the image, which is saved in the notebook; nothing is
fetched from a network.
"""

import io
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

from regard.core.errors import lacking

from ..page import page_data
from ..plotting import static_figure
from ..terminal.map_text import plain

if TYPE_CHECKING:
    from .widget import Page

NO_WIDGET_NOTE = "This is a static image: pip install 'regard[views]' for the interactive page."
DPI = 96  # dots per inch of the layout; the image has twice as many, for high-density screens


def widget(what: Any, **how: Any) -> "Page":
    """The interactive page of a map or record as a widget; needs anywidget."""
    try:
        from .widget import GraphPage, Page
    except ModuleNotFoundError as missing:
        raise lacking(
            "widget() (without it: show() for an image, save_html(path) for a page)", str(missing.name), "views"
        ) from missing
    about, blobs = page_data(what, **how)
    made = (GraphPage if about.get("graphs") else Page)(about=about, blobs=blobs)
    made.still = static_fallback(what, how.get("item", 0)) if in_notebook() else ({"text/plain": plain(what)}, {})
    return made


def show(what: Any, **how: Any) -> None:
    """Show the interactive page in a notebook, a drawing of characters in a terminal."""
    if not in_notebook():
        Console().print(what)
        return
    from IPython.display import display

    data, about = mimebundle(what, **how)
    display(data, metadata=about, raw=True)


def mimebundle(what: Any, **how: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MIME bundle and its metadata: text, image, widget."""
    if not in_notebook():
        return {"text/plain": plain(what)}, {}
    try:
        return widget(what, **how)._repr_mimebundle_()
    except ModuleNotFoundError:
        print(NO_WIDGET_NOTE)
    except ValueError as problem:  # larger than a page may be
        print(problem)
    return static_fallback(what, how.get("item", 0))


def static_fallback(what: Any, item: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Text, and a PNG of the head grid or the heat map with its size and alternative text."""
    data: dict[str, Any] = {"text/plain": plain(what)}
    try:
        figure = static_figure(what, item)
    except (ModuleNotFoundError, ValueError):  # without matplotlib or without maps: text alone
        return data, {}
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=2 * DPI)
    width, height = (round(DPI * size) for size in figure.get_size_inches())
    data["image/png"] = file.getvalue()
    return data, {"image/png": {"width": width, "height": height, "alt": f"Attention weights of {what!r}"}}


def in_notebook() -> bool:
    """Whether IPython runs in a kernel."""
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
