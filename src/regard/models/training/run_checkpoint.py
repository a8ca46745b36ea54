"""A trained run, opened again: what it was stands in run.json beside its checkpoint, and nothing in it is code."""

import json
import os
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.registry import TASKS
from regard.data.task import Task
from regard.recording.io.writing import write_whole

from . import checkpoint
from .experiment import Experiment

FILE, WEIGHTS = "run.json", "last.safetensors"
ABLATIONS = ("uniform", "none", "mean", "mlp")  # what is trained beside the attention asked for
LARGEST = 1_000_000  # bytes of a description


@dataclass(frozen=True)
class Run:
    """A model with the weights of its best epoch, the task that it was trained on, and what it was called.

    unfinished   a sentence where training was stopped before its end; "" where it was not
    command      what to type so that training goes on
    """

    model: nn.Module
    task: Task
    experiment: Experiment
    attention: str
    seed: int
    unfinished: str = ""
    command: str = ""


def describe(folder: Path, experiment: Experiment, attention: str, seed: int) -> None:
    """What is needed to build the model again, written before it is trained."""
    about = {
        "experiment": experiment.name,
        "small": experiment.small,
        "options": experiment.options,
        "attention": attention,
        "seed": seed,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, [json.dumps(about, indent=1).encode()])


def run_in(folder: Path) -> Path | None:
    """The run that a folder holds, or the first seed of the attention that was asked for, beside its ablations."""
    if (folder / FILE).is_file():
        return folder
    begun = [path.parent for path in sorted(folder.glob(f"*/{FILE}"))]
    found = [path for path in begun if (path / WEIGHTS).is_file()] or begun
    asked = [path for path in found if path.name.rpartition("-")[0] not in ABLATIONS] or found
    if len({path.name.rpartition("-")[0] for path in asked}) > 1:
        raise ValueError(f"{folder} holds runs of several attentions: name one of {', '.join(map(str, asked))}.")
    return min(asked, key=lambda path: path.name, default=None)


def open_run(folder: "str | os.PathLike[str]", warn: bool = True) -> Run:
    """What `regard train --out` left, with the data that it is judged on; the data are read as they were then.

    Of a run that was stopped it is the best epoch so far; a warning says so, and `Run.unfinished`.

    folder   one run, such as runs/additive-0, or what holds the runs of one attention
    """
    given, found = folder, run_in(Path(folder))
    if found is None:
        raise FileNotFoundError(f"open_run({str(given)!r}): no run is there; name what `regard train --out` wrote.")
    folder = found
    about = description(folder / FILE)
    try:
        experiment = TASKS[about["experiment"]](bool(about["small"]), **about["options"])
        attention, seed = str(about["attention"]), int(about["seed"])
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"{folder / FILE} describes no run that this version can build: {problem!r}.") from problem
    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(
            f"{folder}: its training was stopped before the first epoch was done, so there are no "
            f"weights yet. `{_command(about, folder)}` goes on with it."
        )
    unfinished, command = _unfinished(folder / WEIGHTS, experiment), _command(about, folder)
    if unfinished and warn:
        warnings.warn(f"{folder}: {unfinished} `{command}` goes on with it.", stacklevel=2)
    task = experiment.load(seed)
    with torch.random.fork_rng(devices=[]):
        model = experiment.model(task, attention)
    checkpoint.fill(model, folder / WEIGHTS)
    return Run(model.eval(), task, experiment, attention, seed, unfinished, command)


def _unfinished(weights: Path, experiment: Experiment) -> str:
    """A sentence where training had more epochs to go, and had not yet waited in vain for as long as it would."""
    found = checkpoint.kept_about(weights).get("found", {})
    how, done = experiment.training, len(found.get("history", ()))
    if not done or done >= how.epochs or found.get("waited", 0) >= how.patience:
        return ""
    return (
        f"Training was stopped after {done} of {how.epochs} epochs: these are the weights of epoch "
        f"{found.get('kept', done)}."
    )


def _command(about: Mapping[str, Any], folder: Path) -> str:
    """What to type so that the training of a run goes on."""
    options = {"attention": about["attention"], **about["options"]}
    words = ["regard", "train", about["experiment"], *(["--small"] if about["small"] else []), "--alone"]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "--seeds", str(int(about["seed"]) + 1), "--out", str(folder.parent)])


def description(path: Path) -> dict[str, Any]:
    """What stands in a run.json; whoever opens it looks at each entry."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} is no description of a run: it has {path.stat().st_size:,} bytes.")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(f"{path} is no description of a run: {problem}.") from problem
    if not isinstance(about, dict):
        raise ValueError(f"{path} is no description of a run: expected an object.")
    return about
