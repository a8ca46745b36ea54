"""regard train on graphs: a network trained by a paper's recipe, its accuracy beside the published one."""

from enum import StrEnum
from typing import Annotated

import typer

from .telling import stop

app = typer.Typer(
    help="Train a model with attention, and set beside it what does without and what is trivial.", no_args_is_help=True
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
    """Graph attention by the paper's recipe: mean and deviation over seeds beside the paper's, and beside what does
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
    """Papers, authors and subjects: HAN, HGT and SimpleHGN beside a GAT that sees no types, the mean of neighbours and
    an MLP without edges; one recipe for all, mean and deviation over seeds.

    Example:  regard train acm --seeds 5 --kind gat --kind hgt
    """
    from regard.models.typed_accuracy import main as run

    try:
        run(labels, seeds, kind or (), json)
    except (OSError, ValueError) as problem:
        stop(str(problem))
