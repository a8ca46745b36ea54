"""Checkpoints: weights, optimiser state and history in one safetensors file, without pickle, written atomically."""

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
    """The container format of record files, with another description."""

    what = "checkpoint"


def save(
    path: "str | os.PathLike[str]",
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    best: dict[str, Tensor],
    about: dict[str, Any],
) -> Path:
    """Save a checkpoint atomically. about: any further state, as JSON."""
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
    """Load into the module and the optimiser in place; returns the best weights and `about`."""
    file = CheckpointFile(path)
    stored_digest = file.about.get("digest")  # older files have none
    if stored_digest is not None and stored_digest != _digest(
        (name, file.stored(name)) for name in sorted(file.entries)
    ):
        raise BadRecord(
            f"{path} is corrupted: the checksum of its tensors is wrong. Delete this file to train from scratch."
        )
    now = {name.removeprefix("now."): _tensor(file, name) for name in file.entries if name.startswith("now.")}
    best = best_weights(path)
    try:
        module.load_state_dict(now)
        saved = file.about["optimiser"]
        state: dict[int, dict[str, Any]] = {}
        for place, name, x in saved["slots"]:
            found = _tensor(file, f"optimiser.{place}.{name}") if x is None else x
            state.setdefault(int(place), {})[str(name)] = found
        optimiser.load_state_dict({"state": state, "param_groups": saved["groups"]})
        return best, dict(file.about["about"])
    except (KeyError, TypeError, ValueError, RuntimeError) as problem:
        message = str(problem).strip() or "unreadable"
        last = message.splitlines()[-1].strip().rstrip(".")  # torch lists every mismatched tensor
        raise ValueError(
            f"{path} is of a different model or optimiser ({last}). Train into another folder, or delete this file."
        ) from problem


def save_best(path: "str | os.PathLike[str]", module: nn.Module) -> Path:
    """Save the weights alone, of a finished model."""
    table = Table()
    for name, x in module.state_dict().items():
        table.add(f"best.{name}", x)
    return table.write(path, {"format": "regard checkpoint", "version": VERSION, "about": {}})


def best_weights(path: "str | os.PathLike[str]") -> dict[str, Tensor]:
    """The weights of the best epoch."""
    file = CheckpointFile(path)
    return {name.removeprefix("best."): _tensor(file, name) for name in file.entries if name.startswith("best.")}


def metadata_of(path: "str | os.PathLike[str]") -> dict[str, Any]:
    """The metadata of a checkpoint: configuration and history. Empty for `save_best`."""
    about = CheckpointFile(path).about.get("about")
    return about if isinstance(about, dict) else {}


def load_best(module: nn.Module, path: Path) -> None:
    """Load the weights of the best epoch into a module."""
    try:
        module.load_state_dict(best_weights(path))
    except RuntimeError as problem:
        raise ValueError(
            f"{path.parent} was trained on other data or by another version: its weights do not fit "
            f"({str(problem).splitlines()[0]})."
        ) from problem


def _digest(tensors: "Iterable[tuple[str, np.ndarray]]") -> str:
    """A checksum of names and bytes, so that a flipped bit is detected before training resumes from it."""
    digest = hashlib.blake2b(digest_size=16)
    for name, x in tensors:
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _tensor(file: RecordFile, name: str) -> Tensor:
    """A copy, since a memory-mapped file may be replaced."""
    if file.entries[name]["dtype"] == "BF16":
        return torch.from_numpy(file.stored(name).view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(file.stored(name).copy())
