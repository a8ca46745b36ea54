"""Heterophilous graphs: neighbours rarely share a class."""

from pathlib import Path

import numpy as np

from regard.data.files import data_file, read_arrays
from regard.data.nodes import NodeTask
from regard.data.readers.graph_file import node_task
from regard.data.readers.splits import PARTS

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
    """A graph with one of its ten fixed splits, undirected; read from heterophilous/<name>.npz in REGARD_DATA.

    Plain chameleon and squirrel have duplicate nodes that leak from training to test; the _filtered ones do not.
    Pei et al. 2020; Platonov et al. 2023.
    """
    if name not in NAMES:
        raise ValueError(f"heterophilous({name!r}): expected one of {', '.join(NAMES)}.")
    if not 0 <= split <= 9:
        raise ValueError(f"heterophilous(split={split}): expected 0 to 9.")
    path = data_file(f"heterophilous/{name}.npz", folder)
    found = read_arrays(path, _ARRAYS)
    edges, nodes = found["edges"], len(found["node_labels"])
    masks = {f"{part}_mask": found[f"{part}_masks"] for part in PARTS}
    if edges.ndim != 2 or edges.shape[1] != 2 or any(mask.shape != (10, nodes) for mask in masks.values()):
        raise ValueError(f"{path} is not a valid graph with ten splits: edges or masks do not fit.")
    arrays = {
        "x": found["node_features"],
        "edge_index": np.unique(np.concatenate([edges.T, edges.T[::-1]], 1), axis=1),
        "y": found["node_labels"],
        **{part: mask[split] for part, mask in masks.items()},
    }
    return node_task(arrays, path, name)
