"""Two turns that the site's build takes: a notebook becomes a page, aligned lists in docstrings stay aligned."""

import json
import re
from pathlib import Path
from typing import Any

from griffe import Extension, Object

NOTEBOOK = re.compile(r"<!-- notebook: (\S+) -->")
ALIGNED = re.compile(r"^\S.*?\S? {2,}\S")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """`<!-- notebook: name.ipynb -->` is replaced by the cells of the notebook beside the page."""
    folder = Path(page.file.abs_src_path).parent
    return NOTEBOOK.sub(lambda found: cells(folder / found[1]), markdown)


def cells(path: Path) -> str:
    """A notebook as Markdown: code as code, printed output as text, pictures inside the page."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            picture = output.get("data", {}).get("image/png")
            if picture:
                parts.append(f"![The figure that this code draws](data:image/png;base64,{picture.strip()})")
            elif output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
    return "\n\n".join(parts)


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
