"""Display of maps and records: as a page, in a notebook, as a figure, in a terminal.

Views, a layer above core, register here; they are imported on first use.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_loaders: list[Callable[[], Any]] = []


def enlist_views(load: Callable[[], Any]) -> None:
    """Registers views: `load()` imports the package whose functions `view` returns."""
    _loaders.append(load)


def view(name: str) -> Any:
    """A function of the views registered last."""
    return getattr(_loaders[-1](), name)


class Displayable:
    """Base of maps and records: `print` draws them in a terminal, the end of a cell in a notebook."""

    internal: frozenset[str] = frozenset({"internal"})  # attributes for backends and views, hidden from `dir`

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self.internal]

    def save_html(self, path: "str | os.PathLike[str]", **how: Any) -> Path:
        """Write a self-contained HTML page: zoom from the whole map to single weights.

        title=, item= of a batch, sites= a predicate on names, beside= another one to compare with. At most 64 MB,
        otherwise an error that says what to leave out.
        """
        made: Path = view("save_html")(self, path, **how)
        return made

    def show(self, **how: Any) -> None:
        """Show it inline: an interactive page in a notebook, else in the terminal. Arguments as for save_html."""
        view("show")(self, **how)

    def widget(self, **how: Any) -> Any:
        """The page as a notebook widget: `widget.choice` is the current selection. Arguments as for save_html."""
        return view("widget")(self, **how)

    def plot(self, kind: str | None = None, **how: Any) -> Any:
        """Draw a figure with matplotlib, on ax= or on axes of its own, and write it to save="figure.pdf" if asked.

        kind  "heat" (or "heatmap"), "lines", "text", "graph", "overlay" (one head), "heads" (all of them); by default
              "heat" where there is one head and "heads" where there are several. The other arguments are those of
              regard.views.heat_map, line_map, text_map, graph_map, overlay and head_grid; a kind of your own is a
              function under @regard.views.figure("name"). cmap= is colours=, labels= names queries and keys (a list
              for both, or a pair of lists), title= is the title.
        """
        return view("plot")(self, kind, **how)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return view("mimebundle")(self)

    def __str__(self) -> str:
        made: str = view("plain")(self)
        return made

    def __rich_console__(self, console: Any, options: Any) -> Any:
        return view("drawn")(self, console, options)
