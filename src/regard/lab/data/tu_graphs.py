"""TU graphs: molecules and proteins, each graph with a class."""

from pathlib import Path

import numpy as np

from regard.data.files import data_file, read_arrays
from regard.data.readers.graph_set import check_graphs, graph_task, one_hot, parts_of_folds
from regard.data.readers.splits import PARTS
from regard.data.task import Task

NAMES = ("MUTAG", "PROTEINS", "NCI1")
_ARRAYS = ("ptr", "edge_index", "node_tag", "tag_values", "y", "label_values", "test_fold")


def tu(name: str = "MUTAG", fold: int = 0, folder: "str | Path | None" = None) -> Task:
    """One of ten folds is judged on, the next one chosen by, the rest learned from; read from tu/<name>.npz.

    inputs (N, tags) one-hot tags of nodes, edges both ways. The few graphs that belong to no fold are learned from.
    Morris et al. 2020.
    """
    if name not in NAMES:
        raise ValueError(f"tu({name!r}): expected one of {', '.join(NAMES)}.")
    path = data_file(f"tu/{name}.npz", folder)
    found = read_arrays(path, _ARRAYS)
    ptr, edges = found["ptr"].astype(np.int64), found["edge_index"].astype(np.int64)
    tags, y, of = len(found["tag_values"]), found["y"].astype(np.int64), found["test_fold"].astype(np.int64)
    check_graphs(path, ptr, edges, len(y), len(found["node_tag"]))
    if found["node_tag"].max() >= tags or y.max() >= len(found["label_values"]) or len(of) != len(y):
        raise ValueError(f"{path}: a tag or a label has no value, or folds are missing.")
    parts = parts_of_folds(of, fold)
    masks = {f"{part}_mask": parts == number for number, part in enumerate(PARTS)}
    arrays = {"x": one_hot(found["node_tag"], tags), "ptr": ptr, "edge_index": edges, "y": y}
    return graph_task(arrays | masks, path, f"{name}, fold {fold}")
