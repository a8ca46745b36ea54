"""regard train by a recipe: graphs as papers trained them, a transformer that goes on learning."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.plural import count_of
from .cli_errors import Device, check_output_folder, console, fail, requires_extra, user_errors
from .help import CommandList
from .progress import format_metrics, progress_bar, progress_bars
from .train_tables import accuracy_table, beside_the_paper, on_validation

if TYPE_CHECKING:
    from ..lab.tasks.node_accuracy import Accuracy

NOT_COMPARABLE = (
    "Accuracy is micro-F1. HAN's paper has 89.2, on another cut of ACM with another split: not comparable. On this "
    "split HeCo's paper has 88.1, 87.5 and 88.7 (20, 40, 60 labels) for HeCo, which is none of these networks."
)

app = typer.Typer(
    cls=CommandList,
    help="Train a model with attention beside what does without.",
    epilog="Example:  regard train sst --small --seeds 1 --out runs",
    no_args_is_help=True,
)


class Citations(StrEnum):
    """The Planetoid citation graphs."""

    cora = "cora"
    citeseer = "citeseer"
    pubmed = "pubmed"


@app.command()
def gat(
    data: Annotated[Citations, typer.Option(help="The graph of papers, read from the folder REGARD_DATA.")],
    seeds: Annotated[int, typer.Option(min=1, help="How often each network is trained.")] = 20,
    alone: Annotated[bool, typer.Option("--alone", help="Only GAT: no mean of neighbours, no MLP.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="A folder for the networks, for regard judge.")] = None,
) -> None:
    """Graph attention on a citation graph, by the paper's recipe.

    Mean and deviation over seeds beside the paper's, and beside what does
    without attention and without edges.

    Example:  regard train gat --data cora --seeds 20
    """
    check_output_folder(out)
    with user_errors():
        from ..lab.data.planetoid import planetoid
        from ..lab.tasks.node_accuracy import SAYS, accuracies

        try:
            task = planetoid(data.value).to(device)
            found = _counted(partial(accuracies, out=out), task, seeds, SAYS, ("gat",) if alone else tuple(SAYS))
        except RuntimeError as problem:  # a device that is not there
            fail(str(problem))
        title = f"{task.name}: test accuracy in %, {count_of(seeds, 'seed')}, public split"
        if not _as_json(json, data.value, seeds, found):
            console().print(accuracy_table(title, found, SAYS, "the paper's", beside_the_paper))


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
    with user_errors():
        from ..lab.data.acm import acm
        from ..lab.tasks.hetero_accuracy import typed_accuracies
        from ..models.hetero_gnn import TYPED

        says = {name: one.says for name, one in TYPED.items()}
        for unknown in (one for one in kind or () if one not in says):
            fail(f"--kind {unknown}: expected one of {', '.join(says)}.")
        task = acm(labels)
        found = _counted(typed_accuracies, task, seeds, says, kind or tuple(says))
        title = f"{task.name}: test accuracy in %, {count_of(seeds, 'seed')}, one recipe for all"
        if not _as_json(json, task.name, seeds, found):
            console().print(accuracy_table(title, found, says, "validation", on_validation))
            console().print(NOT_COMPARABLE)


def _counted(
    train: "Callable[..., list[Accuracy]]", task: Any, seeds: int, says: dict[str, str], kinds: Sequence[str]
) -> "list[Accuracy]":
    """A bar for each kind of network, which tells its accuracy so far."""
    with progress_bars() as report:
        for kind in kinds:
            report(f"{says[kind]} on {task.name}", 0, seeds)

        def after(one: "Accuracy") -> None:
            thing = f"{says[one.kind]} on {task.name}"
            report(thing, len(one.runs), seeds, f"{thing}: {one.mean:.1f} ± {one.deviation:.1f}")

        return train(task, range(seeds), kinds, after=after)


def _as_json(wanted: bool, data: str, seeds: int, found: "list[Accuracy]") -> bool:
    if wanted:
        results = [one.as_dict() for one in found]
        typer.echo(dumps({"data": data, "seeds": seeds, "results": results}, indent=2))
    return wanted


@app.command()
def minilm(
    out: Annotated[Path, typer.Option("--out", "-o", help="A new folder for the model: weights, tokenizer.")],
    model: Annotated[str, typer.Option(help="The transformer to begin with: minilm, or a folder.")] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, help="How often the 6920 sentences are read.")] = 2,
    freeze: Annotated[int, typer.Option(min=0, help="How many of the first layers stay as they are: faster.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the new class head, the order and dropout.")] = 0,
    device: Device = "cpu",
) -> None:
    """A trained transformer learns SST: negative or positive.

    The folder that it leaves, 92 MB, is opened by transformers, regard look and
    regard judge. Needs the folder REGARD_DATA. Takes about seven minutes on one
    core.

    Example:  regard train minilm -o minilm-sst
    """
    if out.exists():
        fail(f"--out {out} is there already: name a folder that is not.")
    with requires_extra("train"), user_errors():
        from dataclasses import replace

        from ..lab.data.sst import sentences
        from ..lab.tasks.fine_tuning import TRAINING, fine_tune, pieces, save
        from ..lab.tasks.texts import bag_of_words
        from ..recording.pretrained import where

        parts = [sentences(part) for part in ("train", "dev", "test")]
        with progress_bar() as report:

            def hear(epoch: int, at: int, of: int, numbers: dict[str, float]) -> None:
                report(f"epoch {epoch} of {epochs}", at, of, format_metrics(numbers))

            tuned = fine_tune(
                where(model)[0],
                *parts,
                training=replace(TRAINING, epochs=epochs),
                freeze=freeze,
                seed=seed,
                device=device,
                hear=hear,
            )
            save(tuned, out)
            report("TF-IDF and logistic regression")
            trivial = bag_of_words(*(pieces(tuned.tokenizer, parts[at]) for at in (0, 2)))
        below = "" if tuned.accuracy > trivial else " That is below the trivial baseline."
        console().print(
            f"{model} on SST: {100 * tuned.accuracy:.1f} % of {len(parts[2])} test sentences right; TF-IDF "
            f"of its word pieces and logistic regression {100 * trivial:.1f} %.{below} Written to {out}.",
            soft_wrap=True,
        )
