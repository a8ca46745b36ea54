"""TU graphs: molecules and proteins, each graph with a class."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batch import Example
from regard.data.files import data_file, read_arrays
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
    if not 0 <= fold <= 9:
        raise ValueError(f"tu(fold={fold}): expected 0 to 9.")
    path = data_file(f"tu/{name}.npz", folder)
    found = read_arrays(path, _ARRAYS)
    ptr, edges = found["ptr"].astype(np.int64), found["edge_index"].astype(np.int64)
    tags, y, of = len(found["tag_values"]), found["y"].astype(np.int64), found["test_fold"].astype(np.int64)
    check_graphs(path, ptr, edges, len(y), len(found["node_tag"]))
    if found["node_tag"].max() >= tags or y.max() >= len(found["label_values"]) or len(of) != len(y):
        raise ValueError(f"{path}: a tag or a label has no value, or folds are missing.")
    x = F.one_hot(torch.from_numpy(found["node_tag"].astype(np.int64)), tags).float()
    graphs = [
        Example(x[ptr[i] : ptr[i + 1]], torch.tensor(y[i]), edges=part, id=i)
        for i, part in enumerate(split_edges(ptr, edges))
    ]
    choose = (fold + 1) % 10
    parts = (
        [graphs[i] for i in np.flatnonzero(chosen)]
        for chosen in ((of != fold) & (of != choose), of == choose, of == fold)
    )
    return Task(f"{name}, fold {fold}", *parts, classes=len(found["label_values"]))


def check_graphs(path: Path, ptr: np.ndarray, edges: np.ndarray, graphs: int, nodes: int) -> None:
    """Every edge stays within one graph."""
    good = len(ptr) == graphs + 1 and ptr[0] == 0 and ptr[-1] == nodes and (np.diff(ptr) > 0).all()
    good = good and edges.ndim == 2 and len(edges) == 2 and edges.size and edges.min() >= 0 and edges.max() < nodes
    if good:
        where = np.searchsorted(ptr, edges, side="right")
        good = (where[0] == where[1]).all()
    if not good:
        raise ValueError(f"{path} is not a set of graphs as expected: nodes or edges leave their graph.")


def split_edges(ptr: np.ndarray, edges: np.ndarray) -> list[Tensor]:
    """The edges of each graph, (2, E), its nodes counted from 0."""
    graph = np.searchsorted(ptr, edges[1], side="right") - 1
    order = np.argsort(graph, kind="stable")
    cuts = np.searchsorted(graph[order], np.arange(len(ptr)))
    return [torch.from_numpy(edges[:, order[a:b]] - first) for a, b, first in zip(cuts, cuts[1:], ptr, strict=False)]
