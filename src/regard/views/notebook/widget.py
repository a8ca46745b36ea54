"""The page as a widget of a notebook, by anywidget."""

from typing import Any, NamedTuple

import anywidget
import traitlets

from regard.core.errors import within

from ..page import script


class Choice(NamedTuple):
    """What is chosen on a page: the site by its name, numbers of head, row and column, and whether it is pinned."""

    site: str
    head: int
    row: int
    column: int
    pinned: bool


class Page(anywidget.AnyWidget):
    """All components on one page. `choice` is what the reader points at; `choose` points from Python."""

    _esm = script() + "\nexport default { render: regard.render };\n"
    about = traitlets.Dict().tag(sync=True)
    blobs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    still: tuple[dict[str, Any], dict[str, Any]] = ({}, {})  # a picture and text, and what is known about each

    def _repr_mimebundle_(self, **asked: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The page, and what stands for it where no page can run."""
        data, about = super()._repr_mimebundle_(**asked) or ({}, {})
        return data | self.still[0], about | self.still[1]

    @property
    def choice(self) -> Choice | None:
        """What is chosen now; None until the page was drawn."""
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
        """Choose on the page, and hold it: what is not given stays."""
        sites = self.about["sites"]
        names = [one["site"] for one in sites]
        if isinstance(site, str) and site not in names:
            raise ValueError(f"choose(site={site!r}): this page has {', '.join(names)}.")
        now = self.chosen or {"site": 0, "head": 0, "row": 0, "column": 0}
        at = names.index(site) if isinstance(site, str) else now["site"] if site is None else site
        made: dict[str, Any] = {"site": within(at, len(sites), f"choose(site={at})", "sites"), "pinned": True}
        most = {"head": sites[at]["heads"], "row": sites[at]["n"], "column": sites[at]["m"]}
        for name, asked in (("head", head), ("row", row), ("column", column)):
            made[name] = (
                min(now[name], most[name] - 1)
                if asked is None
                else within(asked, most[name], f"choose({name}={asked})", f"{name}s")
            )
        self.chosen = made


class GraphPage(Page):
    """The same with what draws graphs, which other pages do not carry."""

    _esm = script("graph.js") + Page._esm
