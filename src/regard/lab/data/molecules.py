"""Molecules whose label is a known rule, with the atoms that cause it."""

from pathlib import Path

import numpy as np
import torch

from regard.data.batch import Example
from regard.data.files import data_file, read_arrays
from regard.data.readers.graph_set import check_graphs, split_edges
from regard.data.task import Task

NAMES = ("benzene", "logic10", "crippen")
_ARRAYS = ("node_ptr", "edge_ptr", "x", "edge_index", "y", "attr_ptr", "attr_cols", "attr", "train_index", "test_index")


def molecules(name: str = "benzene", folder: "str | Path | None" = None, bonds: bool = False) -> Task:
    """Has it a benzene ring (benzene), does a logical rule hold (logic10), its lipophilicity (crippen, regression).

    inputs (atoms, 14), undirected edges; gold (atoms, columns) one admissible explanation a column, the best counts.
    bonds=True: five more columns, how many bonds of each kind an atom has (single, double, triple, aromatic, other).
    The last tenth of the training molecules is the validation part. Read from graph_explanations/<name>.npz in
    REGARD_DATA. Sanchez-Lengeling et al. 2020.
    """
    if name not in NAMES:
        raise ValueError(f"molecules({name!r}): expected one of {', '.join(NAMES)}.")
    path = data_file(f"graph_explanations/{name}.npz", folder)
    found = read_arrays(path, (*_ARRAYS, "edge_attr") if bonds else _ARRAYS)
    ptr, edges, count = found["node_ptr"].astype(np.int64), found["edge_index"].astype(np.int64), len(found["y"])
    start = found["edge_ptr"].astype(np.int64)
    if len(ptr) == len(start) == count + 1 and edges.size and edges.max() < np.diff(ptr).max():  # counted within each
        edges = edges + np.repeat(ptr[:-1], np.diff(start))
    check_graphs(path, ptr, edges, count, len(found["x"]))
    x, regression = torch.from_numpy(found["x"].astype(np.float32)), name == "crippen"
    if bonds:
        kinds = torch.from_numpy(found["edge_attr"].astype(np.float32))
        if len(kinds) != edges.shape[1]:
            raise ValueError(f"{path}: {len(kinds)} bonds have a kind, and there are {edges.shape[1]}.")
        x = torch.cat([x, torch.zeros(len(x), kinds.shape[1]).index_add(0, torch.from_numpy(edges[0]), kinds)], 1)
    y = torch.from_numpy(found["y"].astype(np.float32 if regression else np.int64)).reshape(count)
    made = []
    for i, part in enumerate(split_edges(ptr, edges)):
        why = found["attr"][found["attr_ptr"][i] : found["attr_ptr"][i + 1]].reshape(-1, found["attr_cols"][i])
        gold = torch.from_numpy(why.astype(np.float32))
        if len(gold) != ptr[i + 1] - ptr[i]:
            raise ValueError(f"{path}: the explanation of molecule {i} has {len(gold)} atoms.")
        made.append(Example(x[ptr[i] : ptr[i + 1]], y[i], gold=gold, edges=part, id=i))
    learned, judged = ([made[i] for i in found[f"{part}_index"]] for part in ("train", "test"))
    held = len(learned) // 10
    return Task(name, learned[:-held], learned[-held:], judged, classes=0 if regression else 2)
