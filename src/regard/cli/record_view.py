"""regard record, info, show, look, serve: record and view the attention of a model."""

import webbrowser
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text as StyledText

from .cli_errors import Device, check_output_file, console, fail, requires_extra, text_or_file, user_errors
from .output.console import Printer

if TYPE_CHECKING:
    import torch

    from .. import Record

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")

Name = Annotated[str, typer.Argument(help="A folder, an installed package (minilm, smollm2) or a hub name.")]
Text = Annotated[str | None, typer.Argument(help="The input text.")]
TextFile = Annotated[Path | None, typer.Option(help="A text file instead of the text.")]
Sites = Annotated[str, typer.Option(help="Only sites that match a pattern, such as '*layer.0.*'.")]
Generate = Annotated[int, typer.Option(min=0, help="Generate N tokens, and record each step.")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run code from the model's hub repository.")]


class Keep(StrEnum):
    """What a record stores of each call."""

    qk = "qk"
    weights = "weights"
    topk = "topk"
    stats = "stats"


class Precision(StrEnum):
    """A dtype: of the model's arithmetic, or of the tensors of a record."""

    model = "model"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"

    @property
    def torch(self) -> "torch.dtype | None":
        """None for that of the model."""
        import torch

        return None if self is Precision.model else getattr(torch, self.value)


ModelType = Annotated[
    Precision,
    typer.Option(
        "--dtype", metavar="<type>", help="Dtype to run the model in: model (its own), float32, bfloat16, float16."
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(help="A second text: what a decoder reads (cross-attention), or the other sentence of a pair."),
]


def record(
    model: Name,
    text: Text = None,
    file: TextFile = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The record file.")] = Path("run.regard"),
    keep: Annotated[
        Keep,
        typer.Option(metavar="<what>", help="qk: queries and keys (exact); weights; topk of each row; stats."),
    ] = Keep.qk,
    store: Annotated[
        Precision,
        typer.Option(metavar="<type>", help="Dtype of the file: model, or a smaller one, with the error measured."),
    ] = Precision.model,
    sites: Sites = "*",
    generate: Generate = 0,
    pair: Pair = None,
    device: Device = "cpu",
    dtype: ModelType = Precision.model,
    trust_remote_code: Trust = False,
) -> None:
    """Run a model on a text or an image; record its attention.

    Example:  regard record minilm "Attention, recorded." -o run.regard
    """
    shown = console(stderr=True)
    check_output_file(out)
    with requires_extra("models"), user_errors():
        from ..views.terminal.record_summary import print_summary, progress_bar

        run = CommandRun(model, sites, generate, pair, device, dtype.torch, trust_remote_code)
        given = text_or_file(text, file)
        rec, _ = run.record(shown, given, keep.value, store.torch)
        with progress_bar(shown, "Row states") as step:
            path = rec.save(out, step)
        print_summary(path, Printer())


def info(file: Annotated[Path, typer.Argument(help="A record file.")]) -> None:
    """Summarise a record: sites, shapes, bytes, missed calls.

    Example:  regard info run.regard
    """
    with _record_errors(file):
        from ..views.terminal.record_summary import print_summary

        print_summary(file, Printer())


def show(
    file: Annotated[Path, typer.Argument(help="A record file.")],
    head: Annotated[str | None, typer.Option(help="One head: 3.5 is head 5 of layer 3.")] = None,
    row: Annotated[int | None, typer.Option(help="One row (query) of that head.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of weights to list of a row.")] = 5,
    item: Annotated[int, typer.Option(help="Batch item.")] = 0,
) -> None:
    """Draw a record in the terminal: all heads, one head, one row.

    Example:  regard show run.regard --head 3.5 --row 3
    """
    with _record_errors(file):
        from ..views.terminal.terminal_show import show_record

        show_record(file, Printer(), head, row, top, item)


def look(
    model: Name,
    text: Text = None,
    file: TextFile = None,
    beside: Annotated[str | None, typer.Option(help="A second text, to compare with.")] = None,
    beside_model: Annotated[str | None, typer.Option(help="A second model on the same text, to compare with.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page (HTML).")] = Path("look.html"),
    sites: Sites = "*",
    generate: Generate = 0,
    pair: Pair = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    device: Device = "cpu",
    dtype: ModelType = Precision.model,
    trust_remote_code: Trust = False,
) -> None:
    """Run a model on a text or an image: every head on one page.

    Example:  regard look minilm "The cat sat on the mat because it was tired."
    Example:  regard look minilm "John loves Mary." --beside "Mary loves John."
    A picture:  regard look google/vit-base-patch16-224 picture.png
    """
    shown = console(stderr=True)
    check_output_file(out)
    with requires_extra("models"), user_errors():
        from ..views.page import distinct_names, html_of, write_file
        from ..views.terminal.record_summary import progress_bar
        from ..views.terminal.what_stands_out import describe_record

        run = CommandRun(model, sites, generate, pair, device, dtype.torch, trust_remote_code)
        given = text_or_file(text, file)
        rec, pixels = run.record(shown, given)
        if pixels is not None and (beside is not None or beside_model is not None):
            fail("--beside and --beside-model compare texts, not images.")
        other, names = None, ("first", "second")
        if beside is not None or beside_model is not None:
            second = CommandRun(beside_model or model, sites, generate, pair, device, dtype.torch, trust_remote_code)
            other = second.record(shown, given if beside is None else beside)[0]
        if beside_model is not None:
            names = distinct_names(model, beside_model)
        with progress_bar(shown, "Drawing") as step:
            title = str(rec.about.get("name", model))
            made = html_of(rec, title=title, beside=other, names=names, image=pixels, progress=step)
        path = write_file(made, out).resolve()
        shown.print(describe_record(rec))
        shown.print("Opened in the browser:" if open_page else "Open this page in a browser (--open does it):")
        typer.echo(path)
        if open_page:
            webbrowser.open(path.as_uri())


def serve(
    records: Annotated[list[Path] | None, typer.Argument(help="Record files to open.")] = None,
    model: Annotated[str | None, typer.Option(help="A model to run texts on, as in regard look.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of records to serve, subfolders included.")] = Path(),
    host: Annotated[str, typer.Option(help="Address to listen on; by default this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free port.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the URL only.")] = False,
    device: Device = "cpu",
    dtype: ModelType = Precision.model,
    trust_remote_code: Trust = False,
) -> None:
    """Web application: records, a live model, interventions.

    Type a text; double-click a token or a head to see what changes.

    Example:  regard serve run.regard --model minilm
    """
    shown = console(stderr=True)
    with requires_extra("views"), user_errors(), _without_tqdm() if model is not None else nullcontext():
        from ..views.server.serve import serve as start_server

        def tell(sentence: str) -> None:
            if sentence.startswith("http"):
                shown.print("Serving at (Ctrl-C to stop):", style="bold")
                typer.echo(sentence)
            else:
                shown.print(sentence, style="yellow")

        start_server(
            records or [],
            folder,
            model,
            trust=trust_remote_code,
            device=device,
            dtype=dtype.torch,
            host=host,
            port=port,
            browser=not no_browser,
            tell=tell,
        )


@contextmanager
def _record_errors(file: Path) -> Iterator[None]:
    """Errors of a record file say what the file is instead, and what to type."""
    from ..recording.io.reading import BadRecord

    with user_errors():
        try:
            yield
        except BadRecord:
            kind = _kind_of(file)
            if kind is None:
                raise
            fail(
                f"{file} is not a record: it is {kind}. This command reads files of `regard record` or Record.save(): "
                "regard record minilm 'Some text.' -o run.regard"
            )
        except FileNotFoundError:
            fail(f"There is no file {file}: write one with regard record minilm 'Some text.' -o {file}.")


OPENED_BY = {  # by file extension: what a file is, and what opens it
    ".html": "a page: open it in a browser",
    ".htm": "a page: open it in a browser",
    ".toml": "a text (for a study: `regard study run`)",
    ".json": "a JSON text",
    ".jsonl": "a JSON text",
    ".sqlite": "a database (for a study: `regard study status FOLDER`)",
    ".csv": "a table",
    ".txt": "a text",
    ".md": "a text",
    ".py": "a program",
}


def _kind_of(file: Path) -> str | None:
    """The kind of a file that is no record, by magic bytes and name; None if it may be a damaged record."""
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
        text_so_far = getincrementaldecoder("utf-8")().decode(first)  # the last character may be cut
    except UnicodeDecodeError:
        return None
    readable = bool(first) and not set(text_so_far) & {chr(code) for code in range(32) if chr(code) not in "\t\n\r\f"}
    return OPENED_BY.get(file.suffix.lower(), "a text") if readable else None


@dataclass(frozen=True)
class CommandRun:
    """A model and its run options, shared by `record` and `look`."""

    model: str
    sites: str
    generate: int
    pair: str | None
    device: str
    dtype: "torch.dtype | None"
    trust: bool

    def record(
        self, shown: Console, given: str, keep: str = "qk", stored: "torch.dtype | None" = None
    ) -> "tuple[Record, Any]":
        """The record of a text or of a picture's file, and the picture's pixels; with status messages."""
        from ..recording.pretrained import record_image, record_text

        with _without_tqdm(), shown.status("Loading ...") as status:

            def tell(sentence: str) -> None:
                if sentence.endswith("..."):
                    status.update(StyledText(sentence))
                else:
                    shown.print(sentence, style="yellow")

            pixels = None
            if _is_picture(given):
                if self.pair is not None or self.generate:
                    fail(f"{given} is an image: leave out {'--pair' if self.pair is not None else '--generate'}.")
                rec, pixels = record_image(
                    self.model, given, keep, stored, self.sites, self.trust, tell, self.device, self.dtype
                )
            else:
                rec = record_text(
                    self.model, given, keep, stored, self.sites, self.generate, self.trust, tell,
                    self.pair, self.device, self.dtype,
                )  # fmt: skip
        from ..views.terminal.record_summary import told

        if rec.missed:
            shown.print(f"Missed: {told(rec.missed)}", style="yellow")
        if rec.other:
            shown.print(f"Not attention: {told(rec.other)}", style="dim")
        return rec, pixels


def _is_picture(given: str) -> bool:
    """Whether a text is the name of an image file; a missing image file is an error."""
    if "\n" in given or not given.lower().endswith(PICTURES) or (" " in given.strip() and not Path(given).is_file()):
        return False
    if not Path(given).is_file():
        fail(f"There is no image {given}.")
    return True


@contextmanager
def _without_tqdm() -> Iterator[None]:
    """Disable the tqdm bars of other libraries; status messages replace them."""
    from functools import partialmethod

    from tqdm import tqdm  # type: ignore[import-untyped]

    start = tqdm.__init__
    tqdm.__init__ = partialmethod(start, disable=True)
    try:
        yield
    finally:
        tqdm.__init__ = start
