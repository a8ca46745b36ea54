"""regard train TASK: a task model with attention, its ablations and trivial baselines."""

import inspect
from collections.abc import Callable
from functools import wraps
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_errors import Device, check_output_folder, console, fail, requires_extra, resumable, user_errors
from .output.progress import format_metrics, progress_bar
from .output.train_tables import comparison_tables
from .train import app

ATTENTION = (
    "A score (additive, dot, scaled_dot, general, cosine, ...), an alignment (hard, sparsemax, entmax15, "
    "top_k=8, local_predictive, ...), both (general+top_k=8), uniform, mean, or none; then heads=4, hops=2, features, "
    "frozen. Repeatable; by default that of the task."
)


def _complete_attention(incomplete: str) -> list[str]:
    """Shell completion: scores and alignments, and after a + alignments."""
    from ..models.attention_spec import ALIGNMENTS, SCORES, SIZED, WHOLE

    score, joined, begun = incomplete.rpartition("+")
    aligned = (*ALIGNMENTS, *(f"{name}=" for name in SIZED))
    names = aligned if joined else (*SCORES, *aligned, *WHOLE)
    return [f"{score}{joined}{name}" for name in names if name.startswith(begun)]


def _run(
    experiment: Any,
    attention: Annotated[list[str] | None, typer.Option(help=ATTENTION, autocompletion=_complete_attention)] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Training runs of each model.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="A small setting for a CPU: minutes.")] = False,
    alone: Annotated[bool, typer.Option("--alone", help="Only the requested attention, no ablations.")] = False,
    device: Device = "cpu",
    devices: Annotated[int, typer.Option(min=1, help="Number of processes (DDP; needs lightning).")] = 1,
    precision: Annotated[str, typer.Option(help="32-true, bf16-mixed or 16-mixed (these need lightning).")] = "32-true",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for checkpoints and results; interrupted runs resume.")
    ] = None,
    board: Annotated[bool, typer.Option("--board", help="Also write TensorBoard logs into --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Train with a progress bar on stderr, then tables or JSON on stdout. The options common to all tasks."""
    check_output_folder(out)
    with requires_extra("train"), user_errors(), resumable(saved=out is not None):
        from ..lab.tasks.compare import compare

        try:
            with progress_bar() as report:
                found = compare(
                    experiment,
                    attention or "",
                    seeds,
                    device,
                    devices,
                    precision,
                    out,
                    alone,
                    board,
                    lambda what, at, of, numbers: report(what, at, of, format_metrics(numbers)),
                )
        except RuntimeError as problem:
            fail(str(problem))
        if json:
            typer.echo(dumps(found.as_dict(), indent=1))
            return
        shown = console()
        for table in comparison_tables(found):
            shown.print(table)
        if found.verdict():
            shown.print(found.verdict())


def task(function: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    """Decorator: a command from a function with the options of one task, passed to its experiment."""
    own = inspect.signature(function, eval_str=True).parameters
    shared = {name: one for name, one in inspect.signature(_run).parameters.items() if name != "experiment"}

    @wraps(function)
    def command(**given: Any) -> None:
        with requires_extra("train"):
            from ..data.registry import TASKS
            from ..models.training.experiment import build_experiment
        options = function(**{name: given.pop(name) for name in own})
        with user_errors():
            name = function.__name__
            experiment = build_experiment(name, TASKS[name], given["small"], options)
        _run(experiment, **given)

    both = [one.replace(kind=one.KEYWORD_ONLY) for one in (*own.values(), *shared.values())]
    command.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in both}
    app.command(function.__name__)(command)
    return command


def add_plugin_tasks() -> None:
    """Adds a command for each task of a plugin (`regard.plugins`) without a command here."""
    from ..data.registry import TASKS

    own = {one.name for one in app.registered_commands}
    for name in TASKS:
        if name not in own:
            _add_plugin_task(name, TASKS.packages(name)[0])


def _add_plugin_task(name: str, package: str) -> None:
    def options_of(
        option: Annotated[
            list[str] | None, typer.Option(help="An argument of the experiment, as name=value (repeatable).")
        ] = None,
    ) -> dict[str, Any]:
        return dict(_argument(one) for one in option or ())

    options_of.__name__ = name
    options_of.__doc__ = f"""Task of the package {package}.

    Declared under regard.plugins.

    Example:  regard train {name} --small --seeds 1
    """
    task(options_of)


def _argument(text: str) -> tuple[str, Any]:
    """Parses keys=4 as ("keys", 4): a number or bool if possible, else text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        fail(f"--option {text}: expected name=value, such as --option keys=4.")
    try:
        return name, loads(value)
    except ValueError:
        return name, value


def _own_path(data: str) -> str:
    """An absolute path, so that a run finds its data again; names are unchanged."""
    from ..data.readers.user_file import is_path

    return str(Path(data).resolve()) if is_path(data) else data


Supervise = Annotated[float, typer.Option(min=0.0, help="Weight of the attention supervision loss.")]
Order = Annotated[str, typer.Option(help="Decoder: bahdanau, luong, parallel (fast) or transformer.")]


@task
def sst() -> dict[str, Any]:
    """Sentences of film reviews, negative or positive.

    A BiLSTM with attention; baseline: a bag of words.

    Example:  regard train sst --small --seeds 1
              regard train sst --small --attention additive --attention sparsemax
    """
    return {}


Split = Annotated[int, typer.Option(min=0, help="Seed of the random split, unless the file has a column split.")]


@task
def classification(
    data: Annotated[
        str,
        typer.Option(
            help="Your texts: a .csv, .tsv or .jsonl with text, label and optionally rationale, split. Or a folder in "
            "ERASER format: train.jsonl, val.jsonl, test.jsonl and docs/."
        ),
    ],
    split: Split = 0,
    longest: Annotated[int, typer.Option(min=0, help="Maximum number of words of a text; 0: no limit.")] = 0,
    supervise: Supervise = 0.0,
    reading: Annotated[
        str, typer.Option(help="Reading times to compare attention with: a .csv with sentence, word and time.")
    ] = "",
) -> dict[str, Any]:
    """Your own texts with classes.

    A BiLSTM with attention; baseline: a bag of words. A random split (70, 15,
    15 %) unless the file has a column split.

    Example:  regard train classification --data my.csv --small --out runs
    """
    where = str(Path(data).resolve())  # absolute, so that judging finds it from any folder
    times = str(Path(reading).resolve()) if reading else ""
    return {"data": where, "split": split, "longest": longest, "supervise": supervise, "reading": times}


@task
def translation(
    data: Annotated[
        str, typer.Option(help="Your sentence pairs, one a line: a source ||| a target, words separated by blanks.")
    ],
    gold: Annotated[str, typer.Option(help="Gold word alignments in Pharaoh's format, line by line.")] = "",
    first: Annotated[int, typer.Option(min=0, max=1, help="Index of the first word in --gold: 0 or 1.")] = 0,
    order: Order = "parallel",
    split: Split = 0,
) -> dict[str, Any]:
    """Your own sentence pairs: translation and word alignment.

    BLEU; with --gold also the alignment error rate of attention. A random
    split (70, 15, 15 %).

    Example:  regard train translation --data pairs.txt --gold gold.txt --small
    """
    where = {"data": str(Path(data).resolve()), "gold": str(Path(gold).resolve()) if gold else ""}
    return {**where, "first": first, "order": order, "split": split}


@task
def movies() -> dict[str, Any]:
    """Long film reviews by hierarchical attention.

    And agreement of attention with human rationales.

    Example:  regard train movies --small --seeds 1
    """
    return {}


@task
def agnews() -> dict[str, Any]:
    """Four classes of news.

    A BiLSTM with attention; baseline: a bag of words. A split for each seed.

    Example:  regard train agnews --small --seeds 1
    """
    return {}


@task
def multi30k(
    order: Order = "parallel",
    beam: Annotated[int, typer.Option(min=1, help="Beam width.")] = 5,
    to: Annotated[str, typer.Option(help="The language to translate into: de or fr.")] = "de",
) -> dict[str, Any]:
    """Translate English captions into German or French.

    An RNN with and without attention; BLEU, also by length.

    Example:  regard train multi30k --small --seeds 1
    """
    return {"order": order, "beam": beam, "to": to}


@task
def spoken(
    held_out: Annotated[str, typer.Option(help="Speaker held out of training: one of the six.")] = "theo",
    order: Order = "luong",
) -> dict[str, Any]:
    """Recognise digits of an unseen speaker.

    Strings of 3 to 7 digits; word error rate.

    Example:  regard train spoken --small --seeds 1
    """
    return {"held_out": held_out, "order": order}


@task
def denoise() -> dict[str, Any]:
    """Denoise handwritten digits.

    Self-attention over patches; baselines: filters; PSNR and SSIM.

    Example:  regard train denoise --small --seeds 1
    """
    return {}


@task
def fixations(
    data: Annotated[
        str,
        typer.Option(
            help="The path of your folder: images and fixations.csv with image, x, y and optionally "
            "observer; or scenes."
        ),
    ] = "scenes",
) -> dict[str, Any]:
    """Photographs: does attention match human fixations?

    Attention over patches, supervised by the fixations on half of the
    photographs, tested on others; baselines: centre bias and saliency. Needs
    Pillow.

    Example:  regard train fixations --data photographs --seeds 3 --out runs
    """
    return {"data": data if data == "scenes" else str(Path(data).resolve())}


@task
def tu(
    data: Annotated[
        str,
        typer.Option(
            help="MUTAG, PROTEINS or NCI1; or the path of your graphs: a TU folder, or an .npz with x, ptr, edge_index "
            "and y. regard.data.save_graph writes one of a list of PyG Data."
        ),
    ] = "MUTAG",
    network: Annotated[
        str,
        typer.Option(help="Layers by name: gcn, sage, gat, gps, exphormer, sgformer, esa, ...; GATv2 unless given."),
    ] = "",
) -> dict[str, Any]:
    """Classes of whole graphs: molecules, proteins, your own.

    Graph attention; baselines: means, no edges, counts; seed i is fold i.

    Example:  regard train tu --data PROTEINS --seeds 10
              regard train tu --network gps --seeds 10 --alone
    """
    return {"data": _own_path(data)} | ({"network": network} if network else {})


@task
def molecules(
    data: Annotated[str, typer.Option(help="benzene (has it a ring?) or logic10 (a rule of three parts).")] = "benzene",
    network: Annotated[str, typer.Option(help="Layers by name, as in train tu; GAT unless given.")] = "",
) -> dict[str, Any]:
    """Molecules whose label is a known rule.

    Graph attention; baselines: means, no edges, counts. regard judge then tests
    whether it attends the atoms of the rule.

    Example:  regard train molecules --small --seeds 1 --alone --out benzene
    """
    return {"data": data} | ({"network": network} if network else {})


@task
def drugs(
    held_out: Annotated[str, typer.Option(help="Held out of training: pairs, drugs or cells.")] = "pairs",
) -> dict[str, Any]:
    """Drug response from the graph of a drug and a cell line.

    The response is ln IC50, the cell line its methylation; --attention is
    gat, gatv2, edge, global, co, gcn, uniform or none. Baselines: the means
    of drugs and cell lines. Needs RDKit.

    Example:  regard train drugs --held-out drugs --small --seeds 1
    """
    return {"held_out": held_out}


@task
def retrieval() -> dict[str, Any]:
    """Planted: retrieve the value of the queried key.

    Needs no files. Uniform weights are at chance.

    Example:  regard train retrieval --small --seeds 1
    """
    return {}


@task
def cipher(order: Order = "parallel", supervise: Supervise = 0.0) -> dict[str, Any]:
    """Planted: translation with a known word alignment.

    A cipher: each word has a known translation.

    Example:  regard train cipher --small --seeds 1 --supervise 1
    """
    return {"order": order, "supervise": supervise}


@task
def clutter(supervise: Supervise = 0.0) -> dict[str, Any]:
    """Planted: a digit in clutter, with a known box.

    Example:  regard train clutter --small --seeds 1
    """
    return {"supervise": supervise}


@task
def motifs() -> dict[str, Any]:
    """Planted: house or crossing on a chain.

    Graphs of a chain with a motif; does the readout attend the motif?

    Example:  regard train motifs --small --seeds 1
    """
    return {}


add_plugin_tasks()
