"""Summary of a record for the command line: a progress bar while it is written, a table of its sites."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from regard.core.printable import printable
from regard.recording.io.checking import check_map
from regard.recording.io.loading import load
from regard.recording.io.reading import RecordFile
from regard.recording.record import Record

TENSORS = {  # of a stored map, by its kind
    "scored": ("q", "k", "tau", "sink"),
    "weights": ("weights",),
    "top": ("weight", "key"),
    "edges": ("weight", "edge_index", "source", "target", "edge"),
}

REASONS = 3  # that the head of a page says


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """A transient progress bar."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def record_facts(rec: Record) -> str:
    """One line about a record, for the header of a page."""
    sites = {name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name for name in rec.maps}
    parts = [
        rec.about.get("class", ""),
        f"{rec.about.get('parameters', 0):,} parameters",
        f"{len(sites)} sites",
        unrecorded(rec),
        f"read {rec.about['read']}: the model reads no more" if rec.about.get("read") else "",
    ]
    return " · ".join(printable(str(part)) for part in parts if part)


def unrecorded(rec: Record) -> str:
    """How many calls of attention have no map, and why: the commonest reasons."""
    count = sum(rec.missed.values())
    if not count:
        return "nothing missed"
    why = [str(entry) for entry, _ in rec.missed.most_common(REASONS)]
    more = f"; and {len(rec.missed) - REASONS} more" if len(rec.missed) > REASONS else ""
    return f"{count:,} call{'s' * (count != 1)} not recorded: {'; '.join(why)}{more}"


def told(entries: Mapping[str, int]) -> str:
    """Entries of rec.missed or rec.other, each with how often it ran."""
    return ", ".join(f"{text} ({count})" for text, count in entries.items())


def source_text(rec: Record) -> str:
    """The input text and the generated text, if labelled."""
    run = rec.labels.runs[0] if rec.labels.runs else {}
    return "  →  ".join(axes[0].text for axes in run.values() if axes and axes[0].text)


def print_summary(path: "str | os.PathLike[str]", console: Console) -> None:
    """Print a table of the sites of a record file, from its description alone; the file is validated first."""
    rec, file = load(path), RecordFile(path)
    about, forms = file.about, file.about["maps"]
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))  # the sites of BERT fit into 80 columns
    table.add_column("site", overflow="fold")  # in full: `intervene` and --sites take it
    for name in ("calls", "kind", "shape", "type", "over", "bytes"):
        table.add_column(name)
    for site, calls in _by_path(forms).items():
        form = calls[0]
        shapes = [(*lead, n, m) for lead, n, m in (check_map(file, call) for call in calls)]
        over = " & ".join(next(iter(part)) for part in _over(form)) or "all"
        size = sum(_size(file, name) for name in {name for call in calls for name in _tensors(call)})
        dtype = file._entry(form[TENSORS[form["kind"]][0]])["dtype"].lower()
        table.add_row(
            escape(printable(site)),
            str(len(calls)),
            form["kind"],
            _shape(shapes),
            dtype,
            over if form["kind"] != "edges" else "edges",
            f"{size:,}",
        )
    for form in about.get("stats", []):
        shape = " x ".join(map(str, file.shape(form["entropy"])))
        table.add_row(escape(printable(form["site"])), "1", "stats", shape, "", "", "")
    console.print(f"[bold]{escape(printable(file.path))}[/bold]  {file.bytes:,} bytes, version {about['version']}")
    model = "  ".join(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}" for k, v in rec.about.items())
    lines = [("model", model or "unknown"), ("made by", "  ".join(f"{k} {v}" for k, v in rec.made.items()))]
    if rec.casting is not None:
        lines.append(
            (
                "kept as",
                f"{rec.casting.dtype}: weights differ by up to {rec.casting.largest:.2g} "
                f"(measured on {rec.casting.rows} rows of each map)",
            )
        )
    lines.append(("missed", told(rec.missed) or "nothing"))
    if rec.other:
        lines.append(("other", f"{told(rec.other)}: no attention"))
    for name, said in lines:
        console.print(f"{name:<9}{escape(printable(said))}", highlight=False)
    console.print(table)


def _by_path(forms: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The maps of each module, by call."""
    made: dict[str, list[dict[str, Any]]] = {}
    for form in forms:
        path, colon, call = str(form.get("site")).rpartition(":")
        made.setdefault(path if colon and call.isdigit() else str(form.get("site")), []).append(form)
    return made


def _shape(shapes: list[tuple[int, ...]]) -> str:
    """One shape, or the first and the last of a generation."""
    first, last = (" x ".join(map(str, shape)) for shape in (shapes[0], shapes[-1]))
    return first if first == last else f"{first} .. {last}"


def _tensors(form: dict[str, Any]) -> list[str]:
    """The names of a map's tensors, as validated by check_map."""
    found = [form[key] for key in TENSORS[form["kind"]] if key in form]
    if form["kind"] == "scored":
        found += list((form.get("bias") or {}).values())
    return found + [part[key] for part in _over(form) for key in ("lengths", "mask", "segments", "keys") if key in part]


def _over(form: dict[str, Any]) -> list[dict[str, Any]]:
    """The structure of a map, for the kinds that have one."""
    return form.get("over", []) if form["kind"] in ("scored", "weights") else []


def _size(file: RecordFile, name: str) -> int:
    start, stop = file._entry(name)["data_offsets"]
    return int(stop - start)
