"""The HTML shell of offline pages: head, light and dark theme, content security policy, footer."""

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
    """A complete page around a body of HTML.

    style    CSS of the page, after that of the shell
    facts    entries of the footer; `how` is its heading
    scripts  allow inline scripts; fetching stays forbidden
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
    """A file of templates/, verbatim."""
    return files("regard.views").joinpath("templates", name).read_text(encoding="utf-8")
