"""Heterophilous graphs: neighbours seldom share a class."""

from pathlib import Path

import numpy as np
import torch

from regard.data.files import data_file, read_arrays
from regard.data.nodes import NodeTask

NAMES = (
    "actor",
    "chameleon",
    "chameleon_filtered",
    "squirrel",
    "squirrel_filtered",
    "cornell",
    "wisconsin",
    "minesweeper",
    "tolokers",
)
_ARRAYS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")


def heterophilous(name: str, split: int = 0, folder: "str | Path | None" = None) -> NodeTask:
    """A graph with one of its ten fixed splits, edges both ways; read from heterophilous/<name>.npz in REGARD_DATA.

    Plain chameleon and squirrel have duplicate nodes that leak from training to test; the _filtered ones do not.
    Pei et al. 2020; Platonov et al. 2023.
    """
    if name not in NAMES:
        raise ValueError(f"heterophilous({name!r}): expected one of {', '.join(NAMES)}.")
    if not 0 <= split <= 9:
        raise ValueError(f"heterophilous(split={split}): expected 0 to 9.")
    path = data_file(f"heterophilous/{name}.npz", folder)
    found = read_arrays(path, _ARRAYS)
    y, edges, nodes = found["node_labels"], found["edges"], len(found["node_labels"])
    masks = [found[f"{part}_masks"] for part in ("train", "val", "test")]
    good = edges.ndim == 2 and edges.shape[1] == 2 and edges.size and edges.min() >= 0 and edges.max() < nodes
    good = good and found["node_features"].shape[0] == nodes and y.min() >= 0
    if not good or any(mask.shape != (10, nodes) for mask in masks):
        raise ValueError(f"{path} is not a graph with ten splits as expected: edges, features or masks do not fit.")
    one_way = torch.from_numpy(edges.astype(np.int64)).T
    both = torch.cat([one_way, one_way.flip(0)], 1).unique(dim=1)
    x = torch.from_numpy(found["node_features"].astype(np.float32))
    parts = (torch.from_numpy(mask[split].astype(bool)) for mask in masks)
    return NodeTask(name, x, torch.from_numpy(y.astype(np.int64)), both, *parts)
