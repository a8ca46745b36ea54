"""A network on the nodes of one graph, kept by `regard train gat --out` and opened again; nothing in it is code."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.data.nodes import NodeTask
from regard.data.registry import DATA
from regard.recording.io.writing import write_whole

from . import checkpoint
from .node_training import KINDS, recipe_for
from .run_checkpoint import FILE, WEIGHTS, description


@dataclass(frozen=True)
class NodeRun:
    """A network with the weights of its best epoch, the graph that it was trained on, its kind and its seed."""

    model: nn.Module
    task: NodeTask
    kind: str
    seed: int


def keep(folder: Path, task: NodeTask, kind: str, seed: int, model: nn.Module) -> None:
    """In a folder of its own, <kind>-<seed>."""
    mine = folder / f"{kind}-{seed}"
    mine.mkdir(parents=True, exist_ok=True)
    checkpoint.save_best(mine / WEIGHTS, model)
    write_whole(mine / FILE, [json.dumps({"nodes": task.name, "kind": kind, "seed": seed}, indent=1).encode()])


def is_of_nodes(folder: Path) -> bool:
    """Whether the run in a folder is of `regard train gat`."""
    return "nodes" in description(folder / FILE)


def open_nodes(folder: Path) -> NodeRun:
    """What `keep` left, with the graph as it is now."""
    about = description(folder / FILE)
    data, kind, seed = about.get("nodes"), about.get("kind"), about.get("seed")
    if not isinstance(data, str) or kind not in KINDS or not isinstance(seed, int):
        raise ValueError(
            f"{folder / FILE} describes no run that this version can build: expected a graph, one of "
            f"{', '.join(KINDS)} and a seed, got {data!r}, {kind!r} and {seed!r}."
        )
    task: NodeTask = DATA["planetoid"](data)
    with torch.random.fork_rng(devices=[]):
        model = KINDS[kind](task, recipe_for(data))
    checkpoint.fill(model, folder / WEIGHTS)
    return NodeRun(model.eval(), task, kind, seed)
