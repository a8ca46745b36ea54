"""Saved networks on the nodes of one graph, of `regard train gat` and `nodes --out`. No code is stored."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.nodes import NodeTask
from regard.data.readers.graph_file import read_graph
from regard.data.registry import DATA
from regard.recording.io.writing import write_whole

from . import checkpoint
from .node_training import KINDS, Recipe, build, recipe_for
from .run_checkpoint import FILE, WEIGHTS, description, located

CITATIONS = ("cora", "citeseer", "pubmed")


@dataclass(frozen=True)
class NodeRun:
    """A network with the weights of its best epoch, its graph, kind and seed."""

    model: nn.Module
    task: NodeTask
    kind: str
    seed: int


def save_run(
    folder: Path, task: NodeTask, kind: str, seed: int, model: nn.Module, recipe: Recipe | None = None
) -> None:
    """Save into the subfolder <kind>-<seed>, with the recipe where it is not that of the data."""
    own = folder / f"{kind}-{seed}"
    own.mkdir(parents=True, exist_ok=True)
    checkpoint.save_best(own / WEIGHTS, model)
    about: dict[str, Any] = {"nodes": task.name, "kind": kind, "seed": seed}
    if recipe is not None and recipe != recipe_for(task.name):
        about["recipe"] = asdict(recipe)
    if task.source:
        about |= {"options": {"data": task.source, "split": task.split}, "digest": task.digest}
    write_whole(own / FILE, [json.dumps(about, indent=1).encode()])


def _recipe(about: dict[str, Any], data: str) -> Recipe:
    """The recipe of a saved run: its own, or that of its data."""
    given = about.get("recipe")
    if not isinstance(given, dict):
        return recipe_for(data)
    known = {one.name for one in fields(Recipe)}
    return Recipe(**{name: value for name, value in given.items() if name in known})


def is_of_nodes(folder: Path) -> bool:
    """Whether a folder has a run of `regard train gat`."""
    return "nodes" in description(folder / FILE)


def open_nodes(folder: Path, moved: str = "") -> NodeRun:
    """A saved run, with the graph loaded again; `moved` is where the user's own file lies now, if it was moved."""
    about = description(folder / FILE)
    data, kind, seed = about.get("nodes"), about.get("kind"), about.get("seed")
    if not isinstance(data, str) or kind not in KINDS or not isinstance(seed, int):
        raise ValueError(
            f"{folder / FILE} describes no run that this version can build: expected a graph, one of "
            f"{', '.join(KINDS)} and a seed, got {data!r}, {kind!r} and {seed!r}."
        )
    if "digest" in about:
        options = located(about, folder, moved)
        task: NodeTask = read_graph(options["data"], int(options.get("split", 0)))
    elif data in CITATIONS:
        task = DATA["planetoid"](data)
    else:  # ten splits, of which a seed took its own
        task = DATA["heterophilous"](data, seed % 10)
    with torch.random.fork_rng(devices=[]):
        model = build(kind, task, _recipe(about, data))
    checkpoint.load_best(model, folder / WEIGHTS)
    return NodeRun(model.eval(), task, kind, seed)
