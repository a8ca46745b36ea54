"""Jinja templates with autoescape; undefined values are errors."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Environment(
    loader=PackageLoader("regard.views"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def fill(template: str, **values: Any) -> Markup:
    """Render a template of views/templates to HTML."""
    return Markup(TEMPLATES.get_template(template).render(**values))
