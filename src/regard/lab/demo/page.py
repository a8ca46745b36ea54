"""The page of the demo: one offline file with its figures.

A section is a title, a lead sentence and HTML. The first section with a `hero` fills the first screen. Templates escape
every value that is not marked as HTML.
"""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import PackageLoader
from markupsafe import Markup

from regard.recording.io.writing import write_whole
from regard.views import templating
from regard.views.html_shell import html_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATES = templating.TEMPLATES.overlay(loader=PackageLoader("regard.lab.demo"))
TEMPLATES.filters = TEMPLATES.filters | {
    "percent": lambda share: f"{100 * share:.1f}%",
    "points": lambda share: f"{100 * share:+.1f}".replace("-", "−"),
    "places": lambda value: f"{value:.4f}",
}


@dataclass(frozen=True)
class Theme:
    """The colours of a figure: ink, background, colour map, and one for each of two sides."""

    ink: str
    ground: str
    colours: str
    sides: tuple[str, str]


LIGHT = Theme("#1d1f25", "#faf8f4", "YlOrBr", ("#c9720c", "#2f6db3"))
DARK = Theme("#ece9e2", "#14151a", "inferno", ("#ffb648", "#7db4f5"))


@dataclass(frozen=True)
class PageSection:
    """One section of the page. The first with a hero fills the first screen: its title is the question, `found` the
    answer in a line."""

    title: str
    lead: str
    html: Markup
    hero: Markup | None = None
    found: str | None = None


def fill(template: str, **values: Any) -> Markup:
    """A template of this package as HTML; plain text in the values is escaped."""
    return Markup(TEMPLATES.get_template(template).render(**values))


def render(parts: list[PageSection], **about: str) -> str:
    """The whole page. about: facts for the footer, such as version="0.1.0"."""
    first = next((part for part in parts if part.hero), None)
    body = fill("demo.html", parts=parts, first=first)
    return html_page(
        "Attention, seen and judged", body, style=fill("demo.css"), facts=about, scripts="<script>" in body
    )


def make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--out {folder} is a file; name a folder, which is made where it does not exist.")
    folder.mkdir(parents=True, exist_ok=True)


def write(page: str, folder: Path) -> Path:
    """Write index.html into the folder, atomically."""
    make_folder(folder)
    return write_whole(folder / "index.html", [page.encode()])


def picture(draw: "Callable[[Theme], Figure]", alt: str, themes: tuple[Theme, ...] = (LIGHT, DARK)) -> Markup:
    """A matplotlib figure embedded in the page, drawn for the light and the dark theme, or for one alone."""
    import matplotlib.pyplot as plt

    sources = []
    for theme in themes:
        ink = theme.ink
        colours = {"text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink}
        with plt.rc_context(rc=colours | {"axes.facecolor": theme.ground}):  # type: ignore[arg-type]
            figure, data = draw(theme), io.BytesIO()
            figure.savefig(data, format="png", dpi=160, transparent=True, bbox_inches="tight", pad_inches=0.02)
            plt.close(figure)
        sources.append(_data(data.getvalue()))
    image = Markup('<img class="figure" alt="{}" src="{}">').format(alt, sources[0])
    if len(sources) == 1:
        return image
    dark = Markup('<source media="(prefers-color-scheme: dark)" srcset="{}">').format(sources[1])
    return Markup("<picture>{}{}</picture>").format(dark, image)


def pixels(picture: Any, alt: str) -> Markup:
    """An array (height, width, 3) in [0, 1], one image pixel each; the page enlarges it without blurring."""
    from matplotlib.image import imsave

    data = io.BytesIO()
    imsave(data, picture, format="png")
    return Markup('<img class="pixels" alt="{}" src="{}">').format(alt, _data(data.getvalue()))


def _data(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
