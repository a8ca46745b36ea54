"""Node classification on one graph: an .npz file, or a PyG Data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..nodes import NodeTask
from .arrays import CSR, Arrays, as_array, edges_hold, features, mask_holds, need, read_npz, refuse, whole_tensor
from .splits import PARTS, drawn_parts
from .user_file import content_hash

FORM = "x (N, F), edge_index (2, E), y (N,) and optionally train_mask, val_mask, test_mask (N,)"
MASKS = tuple(f"{part}_mask" for part in PARTS)


def read_graph(source: "str | Path | Any", split: int = 0, normalise: bool = False) -> NodeTask:
    """Reads a node classification task from the path of an .npz file, or from a torch_geometric Data.

    x           (N, F) numbers; or a sparse matrix in CSR form: x_data, x_indices, x_indptr, x_shape
    edge_index  (2, E) whole numbers from 0, sources then targets; undirected edges in both directions
    y           (N,) the class of each node from 0, -1 if unknown
    train_mask, val_mask, test_mask   (N,) optional, all or none; else a stratified random split of 70, 15 and 15 %
                of the labelled nodes, with the seed `split`
    normalise   divides each row of a sparse x by its sum
    """
    if not isinstance(source, str | Path):
        return node_task(graph_arrays(source), f"the {type(source).__name__}", "graph", split, normalise)
    found = read_npz(source)
    task = node_task(found, source, Path(source).name, split, normalise)
    return replace(task, source=str(Path(source).resolve()), digest=content_hash(source), split=split)


def node_task(found: Arrays, where: "str | Path", name: str, split: int = 0, normalise: bool = False) -> NodeTask:
    """A task from the arrays that `read_graph` lists, after validation."""
    need(where, found, ("edge_index", "y"), FORM)
    if "x" not in found:
        need(where, found, CSR, f"{FORM}; x may be sparse, {', '.join(CSR)}")
    y = found["y"]
    nodes = len(y) if y.ndim else 0
    shaped = y.ndim == 1 and nodes > 0
    refuse(
        where,
        {
            "y is a class a node, (N,)": shaped or f"y is {y.shape}" + "; write y[:, 0]" * (y.ndim == 2),
            "y has integers from 0, or -1 for a node without a class": shaped and _classes(y),
            f"x has shape ({nodes}, features)": "x" not in found
            or found["x"].shape[:1] == (nodes,)
            or f"it is {found['x'].shape}, and y is {y.shape}",
            **edges_hold(found["edge_index"], nodes, nodes),
        },
    )
    x = features(where, found, nodes, normalise)
    masks = _masks(found, where, y, split)
    return NodeTask(
        name, x, whole_tensor(y), whole_tensor(found["edge_index"]), *(torch.from_numpy(mask) for mask in masks)
    )


def _classes(y: np.ndarray) -> "bool | str":
    if y.dtype.kind not in "iu":
        return f"y is {y.dtype}; write y.astype('int64')"
    if (y < -1).any() or int(y.max()) >= len(y):
        at = int(np.argmax((y < -1) | (y >= len(y))))
        return f"y[{at}] is {y[at]}"
    return bool((y >= 0).any()) or "no node has a class"


def _masks(found: Arrays, where: "str | Path", y: np.ndarray, split: int) -> list[np.ndarray]:
    there = [name for name in MASKS if name in found]
    if not there:
        able = np.flatnonzero(y >= 0)
        refuse(where, {"three nodes have a class": len(able) >= 3})
        parts = np.full(len(y), -1)
        parts[able] = drawn_parts(y[able].tolist(), split)
        return [parts == number for number in range(3)]
    need(where, found, MASKS, "all three masks or none of them")
    refuse(where, {"masks have one entry a node": _first(mask_holds(found[name], len(y), name) for name in MASKS)})
    masks = [found[name].astype(bool) for name in MASKS]
    refuse(
        where,
        {
            "each mask has a node": _first(bool(m.any()) or f"{n} is empty" for m, n in zip(masks, MASKS, strict=True)),
            "masks do not overlap": bool((np.sum(masks, 0) <= 1).all()) or f"node {int(np.argmax(np.sum(masks, 0)))}",
            "nodes of masks have a class": not (np.any(masks, 0) & (y < 0)).any()
            or f"y[{int(np.argmax(np.any(masks, 0) & (y < 0)))}] is -1",
        },
    )
    return masks


def _first(held: Any) -> "bool | str":
    """The first failed claim, else True."""
    return next((one for one in held if one is not True), True)


def graph_arrays(data: Any) -> dict[str, np.ndarray]:
    """The arrays of a torch_geometric Data."""
    if hasattr(data, "edge_types"):
        raise TypeError("this is a HeteroData: read_hetero_graph(data) takes it; read_graph(data) takes a Data.")
    if not hasattr(data, "edge_index"):
        raise TypeError(f"expected the path of an .npz file or a torch_geometric Data, got {type(data).__name__}.")
    given = {name: getattr(data, name, None) for name in ("x", "edge_index", "y", *MASKS)}
    return {name: as_array(value) for name, value in given.items() if value is not None}
