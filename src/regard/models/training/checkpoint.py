"""A checkpoint: weights, optimiser and history in one safetensors file without pickles, written whole or not at all."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.recording.io.reading import BadRecord, RecordFile
from regard.recording.io.writing import Table, bytes_of

VERSION = 1


class CheckpointFile(RecordFile):
    """The form of a record file with another description."""

    what = "checkpoint"


def save(
    path: "str | os.PathLike[str]",
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    best: dict[str, Tensor],
    about: dict[str, Any],
) -> Path:
    """about: whatever else is needed to go on, as JSON. The file that was there stays until this one is complete."""
    table = Table()
    for name, x in module.state_dict().items():
        table.add(f"now.{name}", x)
    for name, x in best.items():
        table.add(f"best.{name}", x)
    state = optimiser.state_dict()
    slots: list[list[Any]] = []
    for place, held in state["state"].items():
        for name, x in held.items():
            if isinstance(x, Tensor):
                table.add(f"optimiser.{place}.{name}", x)
            slots.append([place, name, None if isinstance(x, Tensor) else x])
    description = {
        "format": "regard checkpoint",
        "version": VERSION,
        "about": about,
        "digest": _digest((name, bytes_of(x)) for name, x in sorted(table.tensors.items())),
        "optimiser": {"slots": slots, "groups": state["param_groups"]},
    }
    return table.write(path, description)


def load(
    path: "str | os.PathLike[str]", module: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Into the module and the optimiser, in place; returns the best weights and what else was kept."""
    file = CheckpointFile(path)
    kept_digest = file.about.get("digest")  # files of before have none
    if kept_digest is not None and kept_digest != _digest((name, file.stored(name)) for name in sorted(file.entries)):
        raise BadRecord(
            f"{path} was damaged: its tensors are not those that were written. Delete this file to train anew."
        )
    now = {name.removeprefix("now."): _tensor(file, name) for name in file.entries if name.startswith("now.")}
    best = best_weights(path)
    try:
        module.load_state_dict(now)
        kept = file.about["optimiser"]
        state: dict[int, dict[str, Any]] = {}
        for place, name, x in kept["slots"]:
            found = _tensor(file, f"optimiser.{place}.{name}") if x is None else x
            state.setdefault(int(place), {})[str(name)] = found
        optimiser.load_state_dict({"state": state, "param_groups": kept["groups"]})
        return best, dict(file.about["about"])
    except (KeyError, TypeError, ValueError, RuntimeError) as problem:
        said = str(problem).strip() or "unreadable"
        last = said.splitlines()[-1].strip().rstrip(".")  # torch names every tensor that differs
        raise ValueError(
            f"{path} is a checkpoint of another model or optimiser ({last}). Train into another folder, "
            "or delete this file."
        ) from problem


def save_best(path: "str | os.PathLike[str]", module: nn.Module) -> Path:
    """The weights alone, of a model that is not trained further."""
    table = Table()
    for name, x in module.state_dict().items():
        table.add(f"best.{name}", x)
    return table.write(path, {"format": "regard checkpoint", "version": VERSION, "about": {}})


def best_weights(path: "str | os.PathLike[str]") -> dict[str, Tensor]:
    """The weights of the best epoch alone."""
    file = CheckpointFile(path)
    return {name.removeprefix("best."): _tensor(file, name) for name in file.entries if name.startswith("best.")}


def kept_about(path: "str | os.PathLike[str]") -> dict[str, Any]:
    """What was kept beside the tensors: how it was trained and how far it came. Empty for `save_best`."""
    about = CheckpointFile(path).about.get("about")
    return about if isinstance(about, dict) else {}


def fill(module: nn.Module, path: Path) -> None:
    """A module with the weights of the best epoch."""
    try:
        module.load_state_dict(best_weights(path))
    except RuntimeError as problem:
        raise ValueError(
            f"{path.parent} was trained on other data or by another version: its weights do not fit "
            f"({str(problem).splitlines()[0]})."
        ) from problem


def _digest(tensors: "Iterable[tuple[str, np.ndarray]]") -> str:
    """Of names and bytes, so that one changed bit is noticed: training on from it would give another result."""
    digest = hashlib.blake2b(digest_size=16)
    for name, x in tensors:
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _tensor(file: RecordFile, name: str) -> Tensor:
    """A copy of its own, since a file that is mapped may be replaced."""
    if file.entries[name]["dtype"] == "BF16":
        return torch.from_numpy(file.stored(name).view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(file.stored(name).copy())
