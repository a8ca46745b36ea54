"""regard record, info, show, look, serve: a model's attention, kept and seen."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from .printing import Printer
from .telling import check_place, extra, given, told

if TYPE_CHECKING:
    from regard import Record

Name = Annotated[str, typer.Argument(help="A folder, an installed package (minilm, smollm2) or a hub name.")]
Text = Annotated[str | None, typer.Argument(help="What the model reads.")]
TextFile = Annotated[Path | None, typer.Option(help="A text file that the model reads instead.")]
Sites = Annotated[str, typer.Option(help="Only modules whose path fits, such as '*layer.0.*'.")]
Generate = Annotated[int, typer.Option(min=0, help="Let the model write this many tokens, and record each step.")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with a model from the hub.")]


class Keep(StrEnum):
    qk = "qk"
    weights = "weights"
    topk = "topk"
    stats = "stats"


class Kept(StrEnum):
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
        Kept,
        typer.Option(
            metavar="<type>", help="As the model has it; or float32, bfloat16, float16, and the error is measured."
        ),
    ] = Kept.model,
    sites: Sites = "*",
    generate: Generate = 0,
    trust_remote_code: Trust = False,
) -> None:
    """Run a model on a text, as it is; keep its attention in a file.

    Example:  regard record minilm "Attention, looked at." -o run.regard
    """
    console = Printer(stderr=True)
    check_place(out)
    with extra("models"), told():
        from regard.views.terminal import progress, summary

        rec = _recorded(console, model, given(text, file), keep.value, dtype.value, sites, generate, trust_remote_code)
        with progress(console, "Row states") as step:
            path = rec.save(out, step)
        summary(path, Printer())


def info(file: Annotated[Path, typer.Argument(help="A record file.")]) -> None:
    """What is in a record: sites, shapes, bytes, what was missed.

    Example:  regard info run.regard
    """
    with told():
        from regard.views.terminal import summary

        summary(file, Printer())


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
    with told():
        from regard.views.asked import show_record

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
    console = Printer(stderr=True)
    check_place(out)
    with extra("models"), told():
        from regard.views.page import html_of, write
        from regard.views.terminal import progress

        def read(what: str) -> "Record":
            return _recorded(console, model, what, "qk", "model", sites, generate, trust_remote_code)

        rec = read(given(text, file))
        other = None if beside is None else read(beside)
        with progress(console, "Drawing") as step:
            title = str(rec.about.get("name", model))
            made = html_of(rec, title=title, beside=other, names=("first", "second"), progress=step)
        typer.echo(write(made, out).resolve())


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
    console = Printer(stderr=True)
    with extra("views"), told(), _without_bars() if model is not None else nullcontext():
        from regard.views.server.running import serve as run

        def tell(sentence: str) -> None:
            if sentence.startswith("http"):
                console.print("[bold]Regard is here[/bold] (Ctrl-C ends it):")
                typer.echo(sentence)
            else:
                console.print(f"[yellow]{escape(sentence)}[/yellow]", highlight=False)

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


def _recorded(
    console: Console, model: str, text: str, keep: str, dtype: str, sites: str, generate: int, trust: bool
) -> "Record":
    """A model run on a text; what takes long is said while it lasts."""
    import torch

    from regard.recording.models import record_text

    with _without_bars(), console.status("Loading ...") as status:

        def tell(sentence: str) -> None:
            if sentence.endswith("..."):
                status.update(escape(sentence))
            else:
                console.print(f"[yellow]{escape(sentence)}[/yellow]")

        kept = None if dtype == "model" else getattr(torch, dtype)
        rec = record_text(model, text, keep, kept, sites, generate, trust, tell)
    if rec.missed:
        said = ", ".join(f"{name} ({count})" for name, count in rec.missed.items())
        console.print(f"[yellow]Missed: {escape(said)}[/yellow]")
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
