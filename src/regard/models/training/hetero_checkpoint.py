"""Saving and loading of networks on heterogeneous graphs (`regard train hetero --out`). No code is stored."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.hetero import TypedTask
from regard.data.readers.hetero_file import read_hetero_graph
from regard.data.readers.user_file import content_hash
from regard.data.registry import DATA
from regard.recording.io.writing import write_whole

from ..hetero_gnn import TYPED
from . import checkpoint
from .node_training import Recipe
from .run_checkpoint import FILE, WEIGHTS, description, located


@dataclass(frozen=True)
class HeteroRun:
    """A network with the weights of its best epoch, the graph that it was trained on, its kind and its seed."""

    model: nn.Module
    task: TypedTask
    kind: str
    seed: int
    source: str = ""


def load_typed(options: Mapping[str, Any]) -> TypedTask:
    """The graph that the options describe: acm with labels, or a path with target, metapaths and split."""
    given = dict(options)
    data = given.pop("data")
    if data != "acm":
        task: TypedTask = read_hetero_graph(data, **given)
    else:
        task = DATA["acm"](**given)
    return task


def keep_typed(
    folder: Path, options: Mapping[str, Any], recipe: Recipe, kind: str, seed: int, model: nn.Module
) -> None:
    """Saves into a folder <kind>-<seed>."""
    mine = folder / f"{kind}-{seed}"
    mine.mkdir(parents=True, exist_ok=True)
    about = {"types": kind, "seed": seed, "recipe": vars(recipe), "options": dict(options)}
    if options["data"] != "acm":
        about["digest"] = content_hash(options["data"])
    checkpoint.save_best(mine / WEIGHTS, model)
    write_whole(mine / FILE, [json.dumps(about, indent=1).encode()])


def is_typed(folder: Path) -> bool:
    """Whether a folder has a run of `regard train hetero`."""
    return "types" in description(folder / FILE)


def open_typed(folder: Path, moved: str = "") -> HeteroRun:
    """Loads a run of `keep_typed`, with its graph loaded again; `moved`: the new path of the user's file."""
    about = description(folder / FILE)
    kind, seed = about.get("types"), about.get("seed")
    if kind not in TYPED or not isinstance(seed, int) or not isinstance(about.get("options"), dict):
        raise ValueError(
            f"{folder / FILE} describes no run that this version can build: expected one of {', '.join(TYPED)}, a seed "
            "and options."
        )
    options = located(about, folder, moved)
    task = load_typed(options)
    try:
        recipe = Recipe(**about["recipe"])
    except (KeyError, TypeError) as problem:
        raise ValueError(f"{folder / FILE} describes no run that this version can build: {problem!r}.") from problem
    with torch.random.fork_rng(devices=[]):
        model = TYPED[kind].make(TYPED[kind].sees(task), recipe)
    checkpoint.load_best(model, folder / WEIGHTS)
    return HeteroRun(model.eval(), task, kind, seed, str(options["data"]) if "digest" in about else "")
