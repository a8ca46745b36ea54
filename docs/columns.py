"""A turn that the site's build takes with docstrings: aligned lists stay aligned."""

import re
from typing import Any

from griffe import Extension, Object

ALIGNED = re.compile(r"^\S.*?\S? {2,}\S")


class Columns(Extension):
    """A paragraph of a docstring whose first line is `name   meaning` keeps its columns."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(map(columns, paragraphs))


def columns(paragraph: str) -> str:
    if not ALIGNED.match(paragraph) or paragraph.startswith("    "):
        return paragraph
    return "\n".join("    " + line for line in paragraph.splitlines())
