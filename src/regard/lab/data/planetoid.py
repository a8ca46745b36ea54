"""Cora, Citeseer, Pubmed: papers that cite each other."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.files import data_file, read_arrays
from regard.data.nodes import NodeTask

PARTS = ("train", "val", "test")
NAMES = ("cora", "citeseer", "pubmed")
_ARRAYS = ("x_data", "x_indices", "x_indptr", "x_shape", "y", "edge_index", "train_mask", "val_mask", "test_mask")


def planetoid(name: str, folder: "str | Path | None" = None, normalise: bool = True) -> NodeTask:
    """A citation graph with its public split: 20 labelled papers a class, 500 to choose by, 1000 to judge on.

    Words of a paper are its features (sparse; Pubmed: TF-IDF), each row divided by its sum unless normalise=False.
    Edges go both ways, without self-loops. Read from planetoid/<name>.npz in `folder`, else in REGARD_DATA.

    Yang, Cohen and Salakhutdinov 2016.
    """
    if name not in NAMES:
        raise ValueError(f"planetoid({name!r}): expected one of {', '.join(NAMES)}.")
    path = data_file(f"planetoid/{name}.npz", folder)
    found = read_arrays(path, _ARRAYS)
    nodes = _checked(found, path)
    values = found["x_data"].astype(np.float32)
    if normalise:
        paper = np.repeat(np.arange(nodes), np.diff(found["x_indptr"]))
        total = np.bincount(paper, values.astype(np.float64), nodes)
        values = (values / np.where(total > 0, total, 1.0)[paper]).astype(np.float32)
    size = tuple(int(side) for side in found["x_shape"])
    start, column = (_tensor(found[part]) for part in ("x_indptr", "x_indices"))
    row = torch.repeat_interleave(torch.arange(nodes), start.diff())
    x = torch.sparse_coo_tensor(
        torch.stack([row, column]), torch.from_numpy(values), size, is_coalesced=True, check_invariants=False
    )
    parts = (torch.from_numpy(found[f"{part}_mask"].astype(bool)) for part in PARTS)
    return NodeTask(name, x, _tensor(found["y"]), _tensor(found["edge_index"]), *parts)


def _tensor(x: np.ndarray) -> Tensor:
    return torch.from_numpy(x.astype(np.int64))


def _checked(found: dict[str, np.ndarray], path: Path) -> int:
    """The number of nodes, once every index is known to stay within the arrays that it points into."""
    shape, start, column, edges = (found[name] for name in ("x_shape", "x_indptr", "x_indices", "edge_index"))
    y, nodes = found["y"], len(found["y"])
    whole = all(x.dtype.kind in "iu" for x in (shape, start, column, edges, y))
    good = {
        "indices are whole numbers": whole,
        "x_shape is (nodes, features)": whole and shape.shape == (2,) and int(shape[0]) == nodes,
        "x_indptr rises from 0 to the number of entries": start.shape == (nodes + 1,)
        and start[0] == 0
        and start[-1] == len(column) == len(found["x_data"])
        and bool((np.diff(start) >= 0).all()),
        "x_indices names features": column.ndim == 1 and _within(column, int(shape[-1])),
        "features rise within a row": bool((np.diff(column)[np.diff(_rows(start, len(column))) == 0] > 0).all()),
        "x_data is finite": bool(np.isfinite(found["x_data"]).all()),
        "edge_index (2, E) names nodes": edges.ndim == 2 and edges.shape[0] == 2 and _within(edges, nodes),
        "y is a class a node": y.ndim == 1 and _within(y, nodes),
        "masks have one entry a node": all(found[f"{part}_mask"].shape == (nodes,) for part in PARTS),
    }
    wrong = [claim for claim, held in good.items() if not held]
    if wrong:
        raise ValueError(f"{path} is not a citation graph as expected; this does not hold: {wrong[0]}.")
    return nodes


def _within(x: np.ndarray, size: int) -> bool:
    return x.size == 0 or (int(x.min()) >= 0 and int(x.max()) < size)


def _rows(start: np.ndarray, count: int) -> np.ndarray:
    return np.searchsorted(start, np.arange(count), side="right")
