"""Templates filled with values: what is not marked as HTML is escaped, and a value that is not there is an error."""

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
    """A template of views/templates as HTML."""
    return Markup(TEMPLATES.get_template(template).render(**values))
