"""Saved runs: run.json describes the model beside its checkpoint, and `open_run` restores it. No code is stored."""

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

from regard.data.readers.user_file import content_hash
from regard.data.registry import TASKS
from regard.data.task import Task
from regard.recording.io.writing import write_whole

from . import checkpoint
from .experiment import Experiment, build_experiment

FILE, WEIGHTS = "run.json", "last.safetensors"
ABLATIONS = ("uniform", "none", "mean", "mlp", "picture")  # trained beside the requested attention
LARGEST = 1_000_000  # maximum bytes of run.json


@dataclass(frozen=True)
class Run:
    """A model with the weights of its best epoch, its task, attention and seed.

    unfinished   a sentence if training was interrupted, else ""
    command      the command that resumes training
    """

    model: nn.Module
    task: Task
    experiment: Experiment
    attention: str
    seed: int
    unfinished: str = ""
    command: str = ""


def describe(folder: Path, experiment: Experiment, attention: str, seed: int) -> None:
    """Write run.json, from which the model can be rebuilt, before training."""
    about: dict[str, Any] = {
        "experiment": experiment.name,
        "small": experiment.small,
        "options": experiment.options,
        "attention": attention,
        "seed": seed,
    }
    if experiment.source:
        digest = content_hash(experiment.source)
        _same_data(folder, experiment.source, digest)
        about["digest"] = digest
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, [json.dumps(about, indent=1).encode()])


def run_in(folder: Path) -> Path | None:
    """The run in a folder; in a folder of runs, the first seed of the attention that is no ablation."""
    if (folder / FILE).is_file():
        return folder
    described = [path.parent for path in sorted(folder.glob(f"*/{FILE}"))]
    found = [path for path in described if (path / WEIGHTS).is_file()] or described
    main = [path for path in found if path.name.rpartition("-")[0] not in ABLATIONS] or found
    if len({path.name.rpartition("-")[0] for path in main}) > 1:
        raise ValueError(f"{folder} holds runs of several attentions: name one of {', '.join(map(str, main))}.")
    return min(main, key=lambda path: path.name, default=None)


def open_run(folder: "str | os.PathLike[str]", warn: bool = True, data: str = "") -> Run:
    """A run saved by `regard train --out`, with its task, loaded as it was in training.

    An interrupted run has the best epoch so far, with a warning and `Run.unfinished`.

    folder   one run, such as runs/additive-0, or a folder with the runs of one attention
    data     where the user's own data lie now, if they were moved since
    """
    given, found = folder, run_in(Path(folder))
    if found is None:
        raise FileNotFoundError(
            f"open_run({str(given)!r}): there is no run; name a folder written by `regard train --out`."
        )
    folder = found
    about = description(folder / FILE)
    try:
        options = located(about, folder, data)
        kind = TASKS[about["experiment"]]
        experiment = build_experiment(about["experiment"], kind, bool(about["small"]), options)
        attention, seed = str(about["attention"]), int(about["seed"])
    except MovedData:
        raise
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"{folder / FILE} describes no run that this version can build: {problem!r}.") from problem
    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(
            f"{folder}: training was interrupted before the end of the first epoch, so there are no "
            f"weights yet. `{_command(about, folder)}` resumes it."
        )
    unfinished, command = _unfinished(folder / WEIGHTS, experiment), _command(about, folder)
    if unfinished and warn:
        warnings.warn(f"{folder}: {unfinished} `{command}` resumes it.", stacklevel=2)
    task = experiment.load(seed)
    with torch.random.fork_rng(devices=[]):
        model = experiment.model(task, attention)
    checkpoint.load_best(model, folder / WEIGHTS)
    return Run(model.eval(), task, experiment, attention, seed, unfinished, command)


def _same_data(folder: Path, source: str, digest: str) -> None:
    """Raises if the data differ from those that the run was started with."""
    if (folder / WEIGHTS).is_file() and description(folder / FILE).get("digest", digest) != digest:
        raise ValueError(
            f"{folder} has a run on a different version of {source}: train into another folder, or delete that one."
        )


class MovedData(ValueError):
    """The user's data of a run were moved or changed."""


def located(about: Mapping[str, Any], folder: Path, data: str = "") -> dict[str, Any]:
    """The options of a run, with `data` the path of the file that it was trained on."""
    options, digest = dict(about["options"]), about.get("digest")
    if digest is None:
        return options
    trained_on = str(options["data"])
    for path in (data, trained_on):
        if path and Path(path).exists() and content_hash(path) == digest:
            return options | {"data": path}
    if Path(trained_on).exists():
        raise MovedData(
            f"{folder} was trained on {trained_on}, whose content has changed since: words and splits would differ "
            "from training. Restore the file, or train again."
        )
    raise MovedData(
        f"{folder} was trained on {trained_on}, which no longer exists. If the file was moved, name it: "
        f"regard judge {shlex.quote(str(folder))} --data FILE{_other(data)}"
    )


def _other(data: str) -> str:
    return f" ({data} has different content)." if data and Path(data).exists() else ""


def _unfinished(weights: Path, experiment: Experiment) -> str:
    """A sentence if epochs were left and early stopping had not been reached."""
    found = checkpoint.metadata_of(weights).get("found", {})
    how, done = experiment.training, len(found.get("history", ()))
    if not done or done >= how.epochs or found.get("waited", 0) >= how.patience:
        return ""
    return (
        f"Training was interrupted after {done} of {how.epochs} epochs: these are the weights of epoch "
        f"{found.get('kept', done)}."
    )


def _command(about: Mapping[str, Any], folder: Path) -> str:
    """The command that resumes the training of a run."""
    options = {"attention": about["attention"], **about["options"]}
    words = ["regard", "train", about["experiment"], *(["--small"] if about["small"] else []), "--alone"]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)] if value != "" else []
    return shlex.join([*words, "--seeds", str(int(about["seed"]) + 1), "--out", str(folder.parent)])


def description(path: Path) -> dict[str, Any]:
    """The contents of a run.json; callers validate the entries."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} is no description of a run: it has {path.stat().st_size:,} bytes.")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ValueError(f"{path} is no description of a run: {problem}.") from problem
    if not isinstance(about, dict):
        raise ValueError(f"{path} is no description of a run: expected an object.")
    return about
