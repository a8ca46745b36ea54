"""The frame of all pages that need no server: head, colours for light and dark, what a browser may do, last lines."""

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:"  # nothing is fetched, nothing runs


def framed(
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
        "style": f"{resource('frame.css')}\n{style}",
        "policy": POLICY + ("; script-src 'unsafe-inline'" if scripts else ""),
        "footer": f'<footer class="band">{heading}<dl>{rows}</dl></footer>' if rows else "",
    }
    return re.sub(r"%%(\w+)%%", lambda found: parts[found[1]], resource("frame.html"))


def resource(name: str) -> str:
    """A file of templates/ as it is."""
    return files("regard.views").joinpath("templates", name).read_text(encoding="utf-8")
