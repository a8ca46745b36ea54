"""The page as a notebook widget (anywidget)."""

from typing import Any, NamedTuple

import anywidget
import traitlets

from regard.core.errors import within

from ..page import script


class Choice(NamedTuple):
    """The selection of a page: site name, indices of head, row and column, and whether it is pinned."""

    site: str
    head: int
    row: int
    column: int
    pinned: bool


class Page(anywidget.AnyWidget):
    """The page as a widget. `choice` is the reader's selection; `choose` sets it from Python."""

    _esm = script() + "\nexport default { render: regard.render };\n"
    about = traitlets.Dict().tag(sync=True)
    blobs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    still: tuple[dict[str, Any], dict[str, Any]] = ({}, {})  # the static fallback: data and metadata

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget and its static fallback."""
        data, about = super()._repr_mimebundle_(**options) or ({}, {})
        return data | self.still[0], about | self.still[1]

    @property
    def choice(self) -> Choice | None:
        """The current selection; None before the page was drawn."""
        if not self.chosen:
            return None
        names = [site["site"] for site in self.about["sites"]]
        chosen = self.chosen
        return Choice(names[chosen["site"]], chosen["head"], chosen["row"], chosen["column"], chosen["pinned"])

    def choose(
        self,
        site: "str | int | None" = None,
        head: int | None = None,
        row: int | None = None,
        column: int | None = None,
    ) -> None:
        """Set and pin the selection; arguments left out stay unchanged."""
        sites = self.about["sites"]
        names = [one["site"] for one in sites]
        if isinstance(site, str) and site not in names:
            raise ValueError(f"choose(site={site!r}): this page has {', '.join(names)}.")
        now = self.chosen or {"site": 0, "head": 0, "row": 0, "column": 0}
        at = names.index(site) if isinstance(site, str) else now["site"] if site is None else site
        made: dict[str, Any] = {"site": within(at, len(sites), f"choose(site={at})", "sites"), "pinned": True}
        most = {"head": sites[at]["heads"], "row": sites[at]["n"], "column": sites[at]["m"]}
        for name, index in (("head", head), ("row", row), ("column", column)):
            made[name] = (
                min(now[name], most[name] - 1)
                if index is None
                else within(index, most[name], f"choose({name}={index})", f"{name}s")
            )
        self.chosen = made


class GraphPage(Page):
    """The page with the graph renderer, which other pages do not need."""

    _esm = script("graph.js") + Page._esm
