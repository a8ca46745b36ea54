"""The command `regard`."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from regard import Record

app = typer.Typer(
    help="Build, run, see and judge attention.",
    epilog="Examples:  regard look minilm 'Some text.'    ·    regard demo    ·    regard bench core --json",
    no_args_is_help=True,
    add_completion=False,
)
bench_app = typer.Typer(help="Measure Regard beside its peers and the limits of the machine.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
train_app = typer.Typer(help="Train a network and set its accuracy beside the published one.", no_args_is_help=True)
app.add_typer(train_app, name="train")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"regard {version('regard')}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page; made where it does not exist.")] = Path("regard-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training images.")] = 15,
) -> None:
    """See attention computed, drawn and put to the test: about a minute and a half, then one page that works offline.

    Example:  regard demo --out /tmp/regard-demo
    """
    console = Console()
    with _extra("demo"):
        from regard.demo import run
    try:
        page = run(out, seeds=seeds, epochs=epochs, console=console)
    except OSError as problem:
        _stop(str(problem))
    console.print("[bold]Open this page:[/bold]")
    typer.echo(page.resolve())


Name = Annotated[str, typer.Option("--model", help="A folder, an installed package (minilm, smollm2) or a hub name.")]
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


@app.command("record")
def record_model(
    model: Name,
    text: Annotated[str | None, typer.Option(help="What the model reads.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text file that the model reads.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The record file.")] = Path("run.regard"),
    keep: Annotated[
        Keep, typer.Option(help="Queries and keys (exact), weights, the largest of each row, statistics.")
    ] = Keep.qk,
    dtype: Annotated[Kept, typer.Option(help="Down-cast what is kept; the error is measured.")] = Kept.model,
    sites: Sites = "*",
    generate: Generate = 0,
    trust_remote_code: Trust = False,
) -> None:
    """Run a model on a text as it is and keep its attention in one file.

    Example:  regard record --model minilm --text "Attention, looked at." -o run.regard
    """
    console = Console(stderr=True)
    _check_place(out)
    with _extra("models"), _told():
        from regard.views.terminal import progress, summary

        rec = _recorded(console, model, _read(text, file), keep.value, dtype.value, sites, generate, trust_remote_code)
        with progress(console, "Row states") as step:
            path = rec.save(out, step)
        summary(path, Console())


@app.command()
def info(file: Annotated[Path, typer.Argument(help="A record file.")]) -> None:
    """What is in a record file: sites, shapes, bytes, versions, what was missed.

    Example:  regard info run.regard
    """
    with _told():
        from regard.views.terminal import summary

        summary(file, Console())


@app.command()
def look(
    model: Annotated[str, typer.Argument(help="A folder, an installed package (minilm, smollm2) or a hub name.")],
    text: Annotated[str | None, typer.Argument(help="What the model reads.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text file instead.")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page.")] = Path("look.html"),
    sites: Sites = "*",
    generate: Generate = 0,
    trust_remote_code: Trust = False,
) -> None:
    """Run a model on a text and see the attention of every head, on one page that works offline.

    Example:  regard look minilm "The cat sat on the mat because it was tired."
    """
    console = Console(stderr=True)
    _check_place(out)
    with _extra("models"), _told():
        from regard.views.page import html_of, write
        from regard.views.terminal import progress

        rec = _recorded(console, model, _read(text, file), "qk", "model", sites, generate, trust_remote_code)
        with progress(console, "Drawing") as step:
            title = str(rec.about.get("name", model))
            made = html_of(rec, title=title, progress=step)
        typer.echo(write(made, out).resolve())


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


def _check_place(out: Path) -> None:
    """Before anything that takes long."""
    if out.is_dir():
        _stop(f"--out {out} is a folder; name a file in it.")
    if not out.resolve().parent.is_dir():
        _stop(f"--out {out}: There is no folder {out.parent}; make it first.")


def _read(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        _stop("give the text to read, or --file with a text file: one of them.")
    return text if file is None else file.read_text(encoding="utf-8")  # type: ignore[return-value]


@contextmanager
def _told() -> Iterator[None]:
    """What a user can put right becomes a sentence."""
    from regard.recording.models import NoModel

    try:
        yield
    except (OSError, ValueError, NoModel) as problem:
        _stop(str(problem))


@bench_app.command()
def core(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """The core: sdpa beside bare SDPA, additive memory, sparse alignments beside entmax, a pyramid.

    Example:  regard bench core --json > core.json
    """
    with _extra("test"):
        from regard.bench import core as measure

        measure.main(json=json)


class Citations(StrEnum):
    cora = "cora"
    citeseer = "citeseer"
    pubmed = "pubmed"


@train_app.command()
def gat(
    data: Annotated[Citations, typer.Option(help="The graph of papers, read from the folder REGARD_DATA.")],
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 20,
    alone: Annotated[bool, typer.Option("--alone", help="Only GAT: no mean of neighbours, no MLP.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
) -> None:
    """Graph attention by the paper's recipe: mean and deviation over seeds beside the paper's, and beside what does
    without attention and without edges.

    Example:  regard train gat --data cora --seeds 20
    """
    from regard.models.accuracy import main as run

    try:
        run(data.value, seeds, alone, json, device)
    except (OSError, ValueError, RuntimeError) as problem:
        _stop(str(problem))


@train_app.command("acm")
def acm_networks(
    labels: Annotated[int, typer.Option(help="Labelled papers a class: 20, 40 or 60.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 5,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only these: mlp, mean, gat, simple_hgn, hgt, han (repeat it for several).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Papers, authors and subjects: HAN, HGT and SimpleHGN beside a GAT that sees no types, the mean of neighbours and
    an MLP without edges; one recipe for all, mean and deviation over seeds.

    Example:  regard train acm --seeds 5 --kind gat --kind hgt
    """
    from regard.models.typed_accuracy import main as run

    try:
        run(labels, seeds, kind or (), json)
    except (OSError, ValueError) as problem:
        _stop(str(problem))


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """A package that is missing becomes a sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "regard":
            raise
        _stop(f"this needs {missing.name}, which is not installed: pip install 'regard[{name}]'")


@bench_app.command()
def graph(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    peers: Annotated[bool, typer.Option(help="Measure torch_geometric too.")] = True,
) -> None:
    """Graph layers: GATConv, GATv2Conv and TransformerConv beside torch_geometric and the gather bound.

    Example:  regard bench graph --json > graph.json
    """
    from regard.bench import graph as measure

    measure.main(json=json, peers=peers)


@bench_app.command("record")
def bench_record(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Recording beside not recording, and beside the slow path that writes every weight out.

    Example:  regard bench record --json > record.json
    """
    with _extra("models"):
        from regard.bench import record as measure

        measure.main(json=json)


def _stop(sentence: str) -> NoReturn:
    Console(stderr=True).print(f"[red]regard:[/red] {escape(sentence)}", soft_wrap=True, highlight=False)
    raise typer.Exit(1)
