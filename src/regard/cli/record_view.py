"""regard record, info, show, look, serve: a model's attention, kept and seen."""

from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import text as styled
from rich.console import Console

from .cli_errors import check_output_file, console, fail, requires_extra, text_or_file, user_errors
from .console import Printer

if TYPE_CHECKING:
    from .. import Record

Name = Annotated[str, typer.Argument(help="A folder, an installed package (minilm, smollm2) or a hub name.")]
Text = Annotated[str | None, typer.Argument(help="What the model reads.")]
TextFile = Annotated[Path | None, typer.Option(help="A text file that the model reads instead.")]
Sites = Annotated[str, typer.Option(help="Only modules whose path fits, such as '*layer.0.*'.")]
Generate = Annotated[int, typer.Option(min=0, help="Let the model write this many tokens, and record each step.")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with a model from the hub.")]


class Keep(StrEnum):
    """What a record keeps of each call."""

    qk = "qk"
    weights = "weights"
    topk = "topk"
    stats = "stats"


class KeepOption(StrEnum):
    """The dtype in which a record keeps its tensors."""

    model = "model"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def record(
    model: Name,
    text: Text = None,
    file: TextFile = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The record file.")] = Path("run.regard"),
    keep: Annotated[
        Keep,
        typer.Option(
            metavar="<what>", help="qk: queries and keys (exact); weights; topk: the largest of each row; stats."
        ),
    ] = Keep.qk,
    dtype: Annotated[
        KeepOption,
        typer.Option(
            metavar="<type>", help="As the model has it; or float32, bfloat16, float16, and the error is measured."
        ),
    ] = KeepOption.model,
    sites: Sites = "*",
    generate: Generate = 0,
    trust_remote_code: Trust = False,
) -> None:
    """Run a model on a text, as it is; keep its attention in a file.

    Example:  regard record minilm "Attention, looked at." -o run.regard
    """
    shown = console(stderr=True)
    check_output_file(out)
    with requires_extra("models"), user_errors():
        from ..views.terminal.record_summary import print_summary, progress_bar

        rec = _recorded(
            shown, model, text_or_file(text, file), keep.value, dtype.value, sites, generate, trust_remote_code
        )
        with progress_bar(shown, "Row states") as step:
            path = rec.save(out, step)
        print_summary(path, Printer())


def info(file: Annotated[Path, typer.Argument(help="A record file.")]) -> None:
    """What is in a record: sites, shapes, bytes, what was missed.

    Example:  regard info run.regard
    """
    with _of_a_record(file):
        from ..views.terminal.record_summary import print_summary

        print_summary(file, Printer())


def show(
    file: Annotated[Path, typer.Argument(help="A record file.")],
    head: Annotated[str | None, typer.Option(help="One head: 3.5 is head 5 of layer 3.")] = None,
    row: Annotated[int | None, typer.Option(help="One row of that head: what it attends to.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many of a row's weights to list.")] = 5,
    item: Annotated[int, typer.Option(help="Which item of a batch.")] = 0,
) -> None:
    """Draw a record in the terminal: all heads, one head, one row.

    Example:  regard show run.regard --head 3.5 --row 3
    """
    with _of_a_record(file):
        from ..views.terminal.terminal_show import show_record

        show_record(file, Printer(), head, row, top, item)


def look(
    model: Name,
    text: Text = None,
    file: TextFile = None,
    beside: Annotated[str | None, typer.Option(help="Another text: see both and the difference.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page.")] = Path("look.html"),
    sites: Sites = "*",
    generate: Generate = 0,
    trust_remote_code: Trust = False,
) -> None:
    """Run a model on a text; see every head on one offline page.

    Example:  regard look minilm "The cat sat on the mat because it was tired."
    Example:  regard look minilm "John loves Mary." --beside "Mary loves John."
    """
    shown = console(stderr=True)
    check_output_file(out)
    with requires_extra("models"), user_errors():
        from ..views.page import html_of, write_file
        from ..views.terminal.record_summary import progress_bar

        def read(what: str) -> "Record":
            return _recorded(shown, model, what, "qk", "model", sites, generate, trust_remote_code)

        rec = read(text_or_file(text, file))
        other = None if beside is None else read(beside)
        with progress_bar(shown, "Drawing") as step:
            title = str(rec.about.get("name", model))
            made = html_of(rec, title=title, beside=other, names=("first", "second"), progress=step)
        typer.echo(write_file(made, out).resolve())


def serve(
    records: Annotated[list[Path] | None, typer.Argument(help="Record files to open.")] = None,
    model: Annotated[str | None, typer.Option(help="A model to type texts for: as in regard look.")] = None,
    folder: Annotated[Path, typer.Option(help="The folder whose records can be opened; nothing outside it.")] = Path(),
    host: Annotated[str, typer.Option(help="Where to listen; unless told, this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: one that is free.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    trust_remote_code: Trust = False,
) -> None:
    """Open records and a live model in the browser; change them.

    Type a text, look, double-click a token or a head and see what changes.

    Example:  regard serve run.regard --model minilm
    """
    shown = console(stderr=True)
    with requires_extra("views"), user_errors(), _without_bars() if model is not None else nullcontext():
        from ..views.server.serve import serve as run

        def tell(sentence: str) -> None:
            if sentence.startswith("http"):
                shown.print("Regard is here (Ctrl-C ends it):", style="bold")
                typer.echo(sentence)
            else:
                shown.print(sentence, style="yellow")

        run(
            records or [],
            folder,
            model,
            trust=trust_remote_code,
            host=host,
            port=port,
            browser=not no_browser,
            tell=tell,
        )


@contextmanager
def _of_a_record(file: Path) -> Iterator[None]:
    """A file that is no record is told with what it is, and with what to type."""
    from ..recording.io.reading import BadRecord

    with user_errors():
        try:
            yield
        except BadRecord:
            what = _kind_of(file)
            if what is None:
                raise
            fail(
                f"{file} is no record: it is {what}. This command reads what `regard record` or Record.save() wrote: "
                "regard record minilm 'Some text.' -o run.regard"
            )
        except FileNotFoundError:
            fail(f"There is no file {file}: write one with regard record minilm 'Some text.' -o {file}.")


OPENED_BY = {  # by its ending, what a file is and what opens it
    ".html": "a page: open it in a browser",
    ".htm": "a page: open it in a browser",
    ".toml": "a text (a study is run by `regard study run`)",
    ".json": "a JSON text",
    ".jsonl": "a JSON text",
    ".sqlite": "a database (a study is looked at by `regard study status FOLDER`)",
    ".csv": "a table",
    ".txt": "a text",
    ".md": "a text",
    ".py": "a program",
}


def _kind_of(file: Path) -> str | None:
    """What a file that is no record is, by its first bytes and its name; None where it may be a damaged record."""
    if file.is_dir():
        run = (file / "run.json").is_file() or any(file.glob("*/run.json"))
        return "a folder of `regard train`, which `regard judge` reads" if run else "a folder"
    with file.open("rb") as opened:
        first = opened.read(512)
    begins = {
        b"PK": "a zip archive",
        b"SQLite format 3": "a database",
        b"\x89PNG": "an image",
        b"%PDF": "a PDF",
        b"GGUF": "a model's weights (give a model to `regard record` or `regard look`)",
    }
    for start, what in begins.items():
        if first.startswith(start):
            return OPENED_BY[".sqlite"] if what == "a database" else what
    text = first.lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return OPENED_BY[".html"]
    if file.suffix == ".safetensors":
        return "a checkpoint or a model's weights (`regard judge` takes the folder it lies in)"
    try:
        text_so_far = getincrementaldecoder("utf-8")().decode(first)  # the last letter may be cut
    except UnicodeDecodeError:
        return None
    readable = bool(first) and not set(text_so_far) & {chr(code) for code in range(32) if chr(code) not in "\t\n\r\f"}
    return OPENED_BY.get(file.suffix.lower(), "a text") if readable else None


def _recorded(
    shown: Console, model: str, text: str, keep: str, dtype: str, sites: str, generate: int, trust: bool
) -> "Record":
    """A model run on a text; what takes long is said while it lasts."""
    import torch

    from ..recording.pretrained import record_text

    with _without_bars(), shown.status("Loading ...") as status:

        def tell(sentence: str) -> None:
            if sentence.endswith("..."):
                status.update(styled.Text(sentence))
            else:
                shown.print(sentence, style="yellow")

        kept = None if dtype == "model" else getattr(torch, dtype)
        rec = record_text(model, text, keep, kept, sites, generate, trust, tell)
    if rec.missed:
        said = ", ".join(f"{name} ({count})" for name, count in rec.missed.items())
        shown.print(f"Missed: {said}", style="yellow")
    return rec


@contextmanager
def _without_bars() -> Iterator[None]:
    """The bars of others are off: what takes long is said here."""
    from functools import partialmethod

    from tqdm import tqdm  # type: ignore[import-untyped]

    start = tqdm.__init__
    tqdm.__init__ = partialmethod(start, disable=True)
    try:
        yield
    finally:
        tqdm.__init__ = start
