"""The frame of all pages that need no server: head, colours for light and dark, what a browser may do, last lines."""

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

# No network, no scripts.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:"


def html_page(
    title: str,
    body: str,
    *,
    style: str = "",
    facts: "Mapping[str, str] | None" = None,
    how: str = "",
    scripts: bool = False,
) -> str:
    """A whole page around a body of HTML.

    style    CSS of this page, after that of the frame
    facts    what its last lines tell, by name; `how` stands above them
    scripts  the body has scripts: they run, and still nothing is fetched
    """
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>" for name, fact in (facts or {}).items())
    heading = f"<h2>{escape(how)}</h2>" if how else ""
    parts = {
        "title": escape(title),
        "body": body,
        "style": f"{template_text('frame.css')}\n{style}",
        "policy": CONTENT_SECURITY_POLICY + ("; script-src 'unsafe-inline'" if scripts else ""),
        "footer": f'<footer class="band">{heading}<dl>{rows}</dl></footer>' if rows else "",
    }
    return re.sub(r"%%(\w+)%%", lambda found: parts[found[1]], template_text("frame.html"))


def template_text(name: str) -> str:
    """A file of templates/ as it is."""
    return files("regard.views").joinpath("templates", name).read_text(encoding="utf-8")
