"""regard train with recipes: graph networks as in their papers, and fine-tuning of a transformer."""

from collections.abc import Callable, Sequence
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.plural import count_of
from .cli_errors import Device, check_output_folder, console, fail, requires_extra, user_errors
from .output.help import CommandList
from .output.progress import format_metrics, progress_bar, progress_bars
from .output.train_tables import accuracy_table, beside_the_paper, on_validation

if TYPE_CHECKING:
    from ..lab.tasks.graphs.node_accuracy import Accuracy

NOT_COMPARABLE = (
    "Accuracy is micro-F1. HAN's paper has 89.2, on another cut of ACM with another split: not comparable. On this "
    "split HeCo's paper has 88.1, 87.5 and 88.7 (20, 40, 60 labels) for HeCo, which is none of these networks."
)

app = typer.Typer(
    cls=CommandList,
    help="Train a model with attention and its baselines without.",
    epilog="Example:  regard train sst --small --seeds 1 --out runs",
    no_args_is_help=True,
)


@app.command()
def gat(
    data: Annotated[
        str,
        typer.Option(
            help="cora, citeseer or pubmed, or the path of your graph: an .npz with x (N, F), edge_index (2, E), "
            "y (N,) and optionally train_mask, val_mask, test_mask. regard.data.save_graph writes one of a "
            "PyG Data."
        ),
    ],
    split: Annotated[int, typer.Option(min=0, help="Seed of the random split of a graph without masks.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each network.")] = 20,
    alone: Annotated[bool, typer.Option("--alone", help="Only GAT: no mean of neighbours, no MLP.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for the networks, for regard judge.")] = None,
) -> None:
    """Graph attention on the nodes of a graph, by the paper's recipe.

    A citation graph or your own. Mean and deviation over seeds, with the
    paper's result and baselines without attention and without edges.

    Example:  regard train gat --data cora --seeds 20
              regard train gat --data my.npz --seeds 3 --out runs
    """
    check_output_folder(out)
    with user_errors():
        from ..lab.data.planetoid import one_graph
        from ..lab.tasks.graphs.node_accuracy import SAYS, accuracies

        try:
            task = one_graph(data, split).to(device)
            found = _counted(partial(accuracies, out=out), task, seeds, SAYS, ("gat",) if alone else tuple(SAYS))
        except RuntimeError as problem:  # an unavailable device
            fail(str(problem))
        title = f"{task.name}: test accuracy in %, {count_of(seeds, 'seed')}{'' if task.source else ', public split'}"
        if not _as_json(json, task.name, seeds, found):
            beside = ("validation", on_validation) if task.source else ("the paper's", beside_the_paper)
            console().print(accuracy_table(title, found, SAYS, *beside))


Kinds = Annotated[list[str] | None, typer.Option(help="Only these: mlp, mean, gat, simple_hgn, hgt, han (repeatable).")]
Kept = Annotated[Path | None, typer.Option("-o", "--out", help="Folder for the networks, for regard judge.")]


@app.command("nodes")
def node_networks(
    data: Annotated[
        str,
        typer.Argument(
            help="cora, citeseer, pubmed; minesweeper, tolokers, actor, chameleon_filtered, squirrel_filtered, ..., of "
            "which seed i takes split i of ten; or the path of your graph, as in train gat."
        ),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="gcn, sage, gat, gatv2, transformer, gps, exphormer, sgformer, polynormer, nodeformer, esa, mean, mlp "
            "(repeatable); by default gcn, gat and mlp."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each network.")] = 5,
    layers: Annotated[int, typer.Option(min=0, help="Number of layers.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Width of each layer, a multiple of --heads.")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="Heads of attention layers.")] = 8,
    dropout: Annotated[
        float, typer.Option(min=0.0, max=0.95, help="Dropout on the inputs and outputs of layers.")
    ] = 0.5,
    norm: Annotated[str, typer.Option(help="layer, batch or none.")] = "layer",
    residual: Annotated[bool, typer.Option(help="Residual connections.")] = True,
    rate: Annotated[float, typer.Option(min=0.0, help="Learning rate of Adam.")] = 0.005,
    decay: Annotated[float, typer.Option(min=0.0, help="Weight decay, not on biases.")] = 5e-4,
    epochs: Annotated[int, typer.Option(min=1, help="Maximum number of epochs.")] = 1000,
    patience: Annotated[
        int, typer.Option(min=1, help="Early stopping: epochs without improvement on validation.")
    ] = 100,
    split: Annotated[int, typer.Option(min=0, help="Seed of the random split of a graph without masks.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    device: Device = "cpu",
    out: Kept = None,
) -> None:
    """Graph networks by name on nodes, one recipe for all.

    Classic networks and graph transformers with the same depth, width, norm,
    residuals and dropout: tuned equally.

    Example:  regard train nodes cora --model gps --model gcn --seeds 5
              regard train nodes minesweeper --model esa --layers 5
    """
    check_output_folder(out)
    with user_errors():
        from ..lab.data.heterophilous import NAMES, heterophilous
        from ..lab.data.planetoid import one_graph
        from ..lab.tasks.graphs.node_accuracy import NETWORKS, accuracies
        from ..models.training.node_training import Recipe

        wanted = tuple(dict.fromkeys(model or ("gcn", "gat", "mlp")))
        for unknown in (one for one in wanted if one not in NETWORKS):
            fail(f"--model {unknown}: expected one of {', '.join(NETWORKS)}.")
        if width % heads:
            fail(f"--width {width} --heads {heads}: expected a width that is a multiple of the heads.")
        if norm not in ("layer", "batch", "none"):
            fail(f"--norm {norm}: expected layer, batch or none.")
        recipe = Recipe(
            width // heads,
            heads,
            1,
            dropout,
            rate,
            decay,
            patience,
            epochs,
            layers=layers,
            norm=norm,
            residual=residual,
        )

        def task_of(seed: int) -> Any:
            return (heterophilous(data, seed % 10) if data in NAMES else one_graph(data, split)).to(device)

        try:
            first = task_of(0)
            train = partial(accuracies, recipe=recipe, out=out, task_of=task_of if data in NAMES else None)
            found = _counted(train, first, seeds, NETWORKS, wanted)
        except RuntimeError as problem:  # an unavailable device
            fail(str(problem))
        title = f"{first.name}: test accuracy in %, {count_of(seeds, 'seed')}, one recipe for all"
        if not _as_json(json, first.name, seeds, found):
            console().print(accuracy_table(title, found, NETWORKS, "validation", on_validation))


@app.command("acm")
def acm_networks(
    labels: Annotated[int, typer.Option(help="Labelled papers a class: 20, 40 or 60.")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each network.")] = 5,
    kind: Kinds = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Kept = None,
) -> None:
    """ACM (papers, authors, subjects): HAN, HGT and SimpleHGN.

    Baselines: a GAT without types, the mean of neighbours, an MLP without
    edges; one recipe for all, mean and deviation over seeds.

    Example:  regard train acm --seeds 5 --kind gat --kind hgt
    """
    _typed({"data": "acm", "labels": labels}, seeds, kind, json, out)
    if not json:
        console().print(NOT_COMPARABLE)


@app.command("hetero")
def hetero_networks(
    data: Annotated[
        str,
        typer.Option(
            help="The path of your heterogeneous graph: an .npz with x/TYPE, edge_index/SOURCE/RELATION/TARGET and "
            "y/TYPE. regard.data.save_graph writes one of a PyG HeteroData."
        ),
    ],
    metapath: Annotated[
        list[str] | None,
        typer.Option(help="A meta-path for HAN, of any length, such as paper/by/author/wrote/paper (repeatable)."),
    ] = None,
    target: Annotated[str, typer.Option(help="The node type to classify, if several have classes.")] = "",
    split: Annotated[int, typer.Option(min=0, help="Seed of the random split of a graph without masks.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each network.")] = 5,
    kind: Kinds = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Kept = None,
) -> None:
    """Your own heterogeneous graph: HAN, HGT, SimpleHGN.

    Baselines: a GAT without types, the mean of neighbours, an MLP without
    edges; one recipe for all, mean and deviation over seeds.

    Example:  regard train hetero --data my.npz --seeds 3 --out runs
    """
    path = str(Path(data).resolve())
    given = {"data": path, "target": target, "metapaths": metapath or [], "split": split}
    _typed(given, seeds, kind, json, out)


def _typed(options: dict[str, Any], seeds: int, kind: list[str] | None, json: bool, out: Path | None) -> None:
    """Train, print and save networks for a heterogeneous graph."""
    check_output_folder(out)
    with user_errors():
        from ..lab.tasks.graphs.hetero_accuracy import typed_accuracies
        from ..models.hetero_gnn import TYPED
        from ..models.training.hetero_checkpoint import keep_typed, load_typed

        says = {name: one.says for name, one in TYPED.items()}
        for unknown in (one for one in kind or () if one not in says):
            fail(f"--kind {unknown}: expected one of {', '.join(says)}.")
        task = load_typed(options)

        def keep(*network: Any) -> None:
            if out is not None:
                keep_typed(out, options, *network)

        found = _counted(partial(typed_accuracies, keep=keep), task, seeds, says, kind or tuple(says))
        title = f"{task.name}: test accuracy in %, {count_of(seeds, 'seed')}, one recipe for all"
        if not _as_json(json, task.name, seeds, found):
            console().print(accuracy_table(title, found, says, "validation", on_validation))


def _counted(
    train: "Callable[..., list[Accuracy]]", task: Any, seeds: int, says: dict[str, str], kinds: Sequence[str]
) -> "list[Accuracy]":
    """A progress bar for each kind of network, with its accuracy so far."""
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
    model: Annotated[str, typer.Option(help="The pretrained transformer: minilm, or a folder.")] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, help="Epochs over the 6920 sentences.")] = 2,
    freeze: Annotated[int, typer.Option(min=0, help="Number of first layers to freeze: faster.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the classification head, the order and dropout.")] = 0,
    device: Device = "cpu",
) -> None:
    """Fine-tune a transformer on SST: negative or positive.

    The saved folder, 92 MB, can be opened by transformers, regard look and
    regard judge. Needs the folder REGARD_DATA. Takes about seven minutes on one
    core.

    Example:  regard train minilm -o minilm-sst
    """
    if out.exists():
        fail(f"--out {out} exists already: name a new folder.")
    with requires_extra("train"), user_errors():
        from dataclasses import replace

        from ..lab.data.sst import sentences
        from ..lab.tasks.texts.fine_tuning import TRAINING, fine_tune, pieces, save
        from ..lab.tasks.texts.text_classification import bag_of_words
        from ..recording.pretrained import where

        parts = [sentences(part) for part in ("train", "dev", "test")]
        with progress_bar() as report:

            def on_step(epoch: int, at: int, of: int, numbers: dict[str, float]) -> None:
                report(f"epoch {epoch} of {epochs}", at, of, format_metrics(numbers))

            tuned = fine_tune(
                where(model)[0],
                *parts,
                training=replace(TRAINING, epochs=epochs),
                freeze=freeze,
                seed=seed,
                device=device,
                on_step=on_step,
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
