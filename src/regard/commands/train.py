"""regard train by a recipe: graphs as papers trained them, a transformer that goes on learning."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .listing import Listing
from .telling import extra, stop, told

app = typer.Typer(
    cls=Listing,
    help="Train a model with attention beside what does without.",
    epilog="Example:  regard train sst --small --seeds 1 --out runs",
    no_args_is_help=True,
)


class Citations(StrEnum):
    cora = "cora"
    citeseer = "citeseer"
    pubmed = "pubmed"


@app.command()
def gat(
    data: Annotated[Citations, typer.Option(help="The graph of papers, read from the folder REGARD_DATA.")],
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 20,
    alone: Annotated[bool, typer.Option("--alone", help="Only GAT: no mean of neighbours, no MLP.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
) -> None:
    """Graph attention on a citation graph, by the paper's recipe.

    Mean and deviation over seeds beside the paper's, and beside what does
    without attention and without edges.

    Example:  regard train gat --data cora --seeds 20
    """
    from regard.models.accuracy import main as run

    try:
        run(data.value, seeds, alone, json, device)
    except (OSError, ValueError, RuntimeError) as problem:
        stop(str(problem))


@app.command("acm")
def acm_networks(
    labels: Annotated[int, typer.Option(help="Labelled papers a class: 20, 40 or 60.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 5,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only these: mlp, mean, gat, simple_hgn, hgt, han (repeat it for several).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Papers, authors and subjects: HAN, HGT and SimpleHGN.

    Beside a GAT that sees no types, the mean of neighbours and an MLP without
    edges; one recipe for all, mean and deviation over seeds.

    Example:  regard train acm --seeds 5 --kind gat --kind hgt
    """
    from regard.models.typed_accuracy import main as run

    try:
        run(labels, seeds, kind or (), json)
    except (OSError, ValueError) as problem:
        stop(str(problem))


@app.command()
def minilm(
    out: Annotated[Path, typer.Option("--out", "-o", help="A new folder for the model: weights, tokenizer.")],
    model: Annotated[str, typer.Option(help="The transformer to begin with: minilm, or a folder.")] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, help="How often the 6920 sentences are read.")] = 2,
    freeze: Annotated[int, typer.Option(min=0, help="How many of the first layers stay as they are: faster.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the new class head, the order and dropout.")] = 0,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
) -> None:
    """A trained transformer learns SST: negative or positive.

    The folder that it leaves is opened by transformers, regard look and regard judge.

    Example:  regard train minilm -o minilm-sst
    """
    with extra("train"), told():
        from regard.models.fine_tuning import fine_tune_on_sst as run

        run(model, out, epochs, freeze, seed, device)
