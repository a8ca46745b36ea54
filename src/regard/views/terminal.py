"""What the command line shows of a record: a bar while it is made, a table of what is in it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..recording.reading import RecordFile
from ..recording.record import Record


@contextmanager
def progress(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is gone when the work is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def facts(rec: Record) -> str:
    """One line about a record, for the head of a page."""
    sites = {name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name for name in rec.maps}
    missed = sum(rec.missed.values())
    parts = [rec.about.get("class", ""), f"{rec.about.get('parameters', 0):,} parameters", f"{len(sites)} sites",
             "nothing missed" if not missed else f"{missed} missed"]  # fmt: skip
    return " · ".join(str(part) for part in parts if part)


def text_of(rec: Record) -> str:
    """The text that was read, and what was written, as far as labels tell."""
    run = rec.labels.runs[0] if rec.labels.runs else {}
    return "  →  ".join(axes[0].text for axes in run.values() if axes and axes[0].text)


def summary(path: "str | os.PathLike[str]", console: Console) -> None:
    """A table of a record file's sites, from its description alone."""
    from ..recording.loading import check_map

    file = RecordFile(path)
    about = file.about
    forms = [form for form in about.get("maps", []) if isinstance(form, dict)]
    table = Table("site", "kind", "shape", "type", "over", "bytes", box=None, header_style="bold")
    for form, count, (lead, n, m) in _merged(file, forms, check_map):
        name = str(form.get("site"))
        shape = " x ".join(map(str, (*lead, n, m)))
        dtype = file.entries[form.get("q") or form.get("weights") or form.get("weight")]["dtype"].lower()
        over = " & ".join(next(iter(part)) for part in form.get("over", [])) or "all"
        size = sum(_size(file, x) for x in _tensors(form))
        table.add_row(escape(name) + (f"  + {count - 1} steps" if count > 1 else ""), form["kind"], shape, dtype,
                      over if form["kind"] != "edges" else "edges", f"{size:,}")  # fmt: skip
    for form in about.get("stats", []):
        table.add_row(escape(str(form["site"])), "stats", " x ".join(map(str, file.shape(form["entropy"]))), "", "", "")
    console.print(f"[bold]{escape(str(file.path))}[/bold]  {file.bytes:,} bytes, version {about['version']}")
    model, made = about.get("model", {}), about.get("made", {})
    console.print("model    " + escape("  ".join(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}"
                                               for k, v in model.items()) or "unknown"), highlight=False)  # fmt: skip
    console.print("made by  " + escape("  ".join(f"{k} {v}" for k, v in made.items())), highlight=False)
    casting = about.get("casting")
    if casting:
        worst = max(casting["error"].values(), default=0.0)
        console.print(f"kept as  {casting['dtype']}: weights differ by up to {worst:.2g} "
                      f"(measured on {casting['rows']} rows of each map)", highlight=False)  # fmt: skip
    missed = about.get("missed", {})
    said = ", ".join(f"{name} ({count})" for name, count in missed.items())
    console.print("missed   " + (escape(said) if missed else "nothing"), highlight=False)
    console.print(table)


def _merged(file: RecordFile, forms: list[dict[str, Any]], check: Any) -> "list[tuple[Any, int, Any]]":
    """The first call of each path, with how many there were and the shape of the last."""
    made: dict[str, list[Any]] = {}
    for form in forms:
        name = str(form.get("site"))
        path = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        entry = made.setdefault(path, [form, 0, None])
        entry[1] += 1
        entry[2] = check(file, form)
    return [(form, count, shape) for form, count, shape in made.values()]


def _tensors(form: dict[str, Any]) -> list[str]:
    """The names of the tensors that a map's form refers to."""
    own = ("q", "k", "tau", "sink", "weights", "weight", "key", "edge_index", "source", "target", "edge")
    found = [form[key] for key in own if key in form]
    found += list(form.get("bias", {}).values())
    return found + [
        part[key] for part in form.get("over", []) for key in ("lengths", "mask", "segments", "keys") if key in part
    ]


def _size(file: RecordFile, name: str) -> int:
    start, stop = file._entry(name)["data_offsets"]
    return int(stop - start)
