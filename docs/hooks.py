"""Hooks of the site's build: a notebook becomes a page; mechanisms, public names and mutants become tables; tutorials
are executed, and a build fails where one prints something else than its page shows."""

import importlib.util
import json
import logging
import re
from itertools import groupby
from pathlib import Path
from typing import Any

NOTEBOOK = re.compile(r"<!-- notebook: (\S+) -->")
TREE = "<!-- taxonomy -->"
NAMES = "<!-- names -->"
MUTANTS = "<!-- mutants -->"
BACKENDS = "<!-- what backends run -->"
SINCE = "<!-- parts and backends -->"


class State:
    """Whether tutorials are walked: a build does it, `mkdocs serve` does not each time a file is saved."""

    walks = False


def on_startup(command: str, **_: Any) -> None:
    State.walks = command == "build"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """`<!-- notebook: name.ipynb -->` becomes the cells of that notebook, `<!-- taxonomy -->` the tree,
    `<!-- names -->` the public names, `<!-- mutants -->` the list of mutants,
    `<!-- what backends run -->` what each backend lists of itself, `<!-- parts and backends -->` what mechanisms since
    2017 are made of."""
    if State.walks and Path(page.file.abs_src_path).parent.name == "tutorials":
        walked(Path(page.file.abs_src_path))
    if TREE in markdown:
        markdown = markdown.replace(TREE, tree())
    if NAMES in markdown:
        markdown = markdown.replace(NAMES, beside("names").tables())
    if MUTANTS in markdown:
        markdown = markdown.replace(MUTANTS, mutants())
    if BACKENDS in markdown:
        markdown = markdown.replace(BACKENDS, beside("backend_tables").tables())
    if SINCE in markdown:
        markdown = markdown.replace(SINCE, parts())
    folder = Path(page.file.abs_src_path).parent
    return NOTEBOOK.sub(lambda found: cells(folder / found[1]), markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """A build fails where the search would not find a term of the field on its page."""
    lost = beside("search_terms").missing(Path(config["site_dir"]))
    if lost:
        raise SystemExit(f"The search index lacks: {'; '.join(lost)}.")


def walked(path: Path) -> None:
    """Run every step of a tutorial; the build ends where one prints something else than the page shows."""
    logging.getLogger("mkdocs.regard").info(f"Walking tutorials/{path.name}: every step is run, which takes a while")
    beside("make_pictures").check(path)


def mutants() -> str:
    """The mutants of tests/mutants.py: what is broken, where, and the tests that must fail."""
    rows = [
        f"| {one.what} | `{one.file}` | `{' '.join(word for word in one.tests.split() if word.startswith('tests/'))}` |"
        for one in beside("../tests/mutants").MUTANTS
    ]
    return "\n".join(["| bug | in | caught by |", "|---|---|---|", *rows])


def beside(name: str) -> Any:
    """A module by its path from this folder."""
    spec = importlib.util.spec_from_file_location(Path(name).name, Path(__file__).parent / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def tree() -> str:
    """Every mechanism of `regard taxonomy`, a table for each place, as it is linked from docs/mechanisms."""
    from regard.taxonomy import mechanisms

    parts, before = [], ""
    for place, members in groupby(mechanisms(), lambda one: one.place):
        if place[0] != before:
            parts.append(f"## {place[0]}")
            before = place[0]
        rows = ["| page | class | formula | papers | also known as |", "|---|---|---|---|---|"]
        for one in members:
            page = one.page.removeprefix("mechanisms/") if one.page.startswith("mechanisms/") else f"../{one.page}"
            shown, kind, papers = one.name.replace("_", " "), one.where.removeprefix("regard."), "; ".join(one.papers)
            rows.append(f"| [{shown}]({page}) | `{kind}` | `{one.short}` | {papers} | {', '.join(one.aliases)} |")
        parts += [f"### {', '.join(place[1:])}", "\n".join(rows)]
    return "\n\n".join(parts)


def parts() -> str:
    """Every mechanism that has a composition: its parts, and a column for each backend that runs one of them."""
    from regard.core.compositions import RECURRENT
    from regard.core.registry import backends
    from regard.taxonomy import mechanisms

    found = [one for one in mechanisms() if one.parts]
    columns = [one.name for one in backends() if any(one.name in each.backends for each in found)] + [*RECURRENT]
    rows = [f"| mechanism | made of | {' | '.join(f'`{name}`' for name in columns)} |"]
    rows.append("|---" * (len(columns) + 2) + "|")
    for one in found:
        cells = ["yes" if name in one.backends else "" for name in columns]
        made = one.parts.replace("|", "\\|")
        rows.append(f"| [{one.name.replace('_', ' ')}]({one.page}) | {made} | {' | '.join(cells)} |")
    return "\n".join(rows)


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
