"""regard train TASK: a task model with attention, its ablations and what is trivial beside it."""

import inspect
import json as writing
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from .telling import extra, stop, told
from .train import app

ATTENTION = (
    "A score (additive, dot, scaled_dot, general, cosine, ...), an alignment (hard, sparsemax, entmax15, "
    "local_predictive, ...), both (general+local_predictive), uniform, or none. Empty: what the task usually has."
)


def _run(
    experiment: Any,
    attention: Annotated[str, typer.Option(help=ATTENTION)] = "",
    seeds: Annotated[int, typer.Option(min=1, help="How often each model is trained.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="A setting for a CPU, done in minutes.")] = False,
    alone: Annotated[bool, typer.Option("--alone", help="Only the attention asked for: no ablations.")] = False,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1.")] = "cpu",
    devices: Annotated[int, typer.Option(min=1, help="How many processes share a batch (needs lightning).")] = 1,
    precision: Annotated[str, typer.Option(help="32-true, bf16-mixed or 16-mixed (these need lightning).")] = "32-true",
    out: Annotated[Path | None, typer.Option(help="A folder for checkpoints and results; stopped runs go on.")] = None,
    board: Annotated[bool, typer.Option("--board", help="Write TensorBoard's files into --out too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Train with a bar on stderr, then tables or JSON on stdout. These options are those of every task."""
    if out is not None and out.exists() and not out.is_dir():
        stop(f"--out {out} is a file; name a folder.")
    with extra("train"), told():
        from regard.models.tasks.comparing import compare, tables

        try:
            found = compare(experiment, attention, seeds, device, devices, precision, out, alone, board)
        except RuntimeError as problem:
            stop(str(problem))
        if json:
            typer.echo(writing.dumps(found.as_dict(), indent=1))
            return
        console = Console()
        for table in tables(found):
            console.print(table)
        if found.verdict():
            console.print(found.verdict(), highlight=False)


def task(function: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    """A command from a function that has the options of one task alone, and gives them to its experiment."""
    own = inspect.signature(function, eval_str=True).parameters
    shared = {name: one for name, one in inspect.signature(_run).parameters.items() if name != "experiment"}

    @wraps(function)
    def command(**given: Any) -> None:
        with extra("train"):
            from regard.models.tasks import EXPERIMENTS
        options = function(**{name: given.pop(name) for name in own})
        with told():
            experiment = EXPERIMENTS[function.__name__](given["small"], **options)
        _run(experiment, **given)

    both = [one.replace(kind=one.KEYWORD_ONLY) for one in (*own.values(), *shared.values())]
    command.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in both}
    app.command(function.__name__)(command)
    return command


@task
def retrieval() -> dict[str, Any]:
    """Planted, needs no files: the value of the key that a question names. Uniform weights are at chance.

    Example:  regard train retrieval --small --seeds 1
    """
    return {}


@task
def sst() -> dict[str, Any]:
    """Sentences of film reviews, negative or positive: a BiLSTM with attention beside a bag of words.

    Example:  regard train sst --small --seeds 1
    """
    return {}


@task
def agnews() -> dict[str, Any]:
    """Four classes of news: a BiLSTM with attention beside a bag of words, another split for each seed.

    Example:  regard train agnews --small --seeds 1
    """
    return {}
