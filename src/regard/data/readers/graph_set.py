"""Graph classification: an .npz file, a folder in TU format, or a list of PyG Data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..batch import Example
from ..task import Task
from .arrays import Arrays, as_array, dense, edges_hold, mask_holds, need, read_npz, refuse, whole_tensor, within
from .splits import PARTS, drawn_parts
from .tu_folder import read_tu_folder

FORM = "x (N, F), ptr (G + 1,), edge_index (2, E), y (G,) and optionally train_mask, val_mask, test_mask (G,)"
MASKS = tuple(f"{part}_mask" for part in PARTS)
FOLDS = 10


def read_graphs(source: "str | Path | Sequence[Any]", fold: int = 0) -> Task:
    """Reads a graph classification task from an .npz file, a TU folder, or a list of torch_geometric Data.

    x           (N, F) node features, concatenated over graphs
    ptr         (G + 1,) graph i has the nodes ptr[i] to ptr[i + 1] - 1
    edge_index  (2, E) integers, row indices of x, sources then targets
    y           (G,) the class of each graph from 0
    node_mask   (N,) optional: 1 for the nodes that determine the class (ground truth)
    train_mask, val_mask, test_mask   (G,) optional, all or none; else ten stratified random folds: `fold` is the
                test part, the next one validation, the rest training

    A TU folder has NAME_A.txt, NAME_graph_indicator.txt, NAME_graph_labels.txt and NAME_node_labels.txt or
    NAME_node_attributes.txt.
    """
    if not isinstance(source, str | Path):
        return graph_task(set_arrays(source), "the list of Data", "graphs", fold)
    path = Path(source)
    found = read_tu_folder(path) if path.is_dir() else read_npz(path)
    return graph_task(found, path, path.name, fold)


def graph_task(found: Arrays, where: "str | Path", name: str, fold: int = 0) -> Task:
    """A task from the arrays that `read_graphs` lists, after validation."""
    graphs = graph_examples(found, where)
    y = found["y"]
    parts = _parts(found, where, y, fold)
    some = ([one for one, mine in zip(graphs, parts, strict=True) if mine == number] for number in range(3))
    return Task(name, *some, classes=int(y.max()) + 1)


def graph_examples(found: Arrays, where: "str | Path") -> list[Example]:
    """The graphs of the arrays, in order."""
    need(where, found, ("x", "ptr", "edge_index", "y"), FORM)
    ptr, y, nodes = found["ptr"], found["y"], len(found["x"])
    refuse(
        where,
        {
            "y is a class a graph, (G,)": (y.ndim == 1 and len(y) > 0) or f"y is {y.shape}",
            "y has integers from 0": within(y, max(len(y), 2), "y"),
            "ptr is non-decreasing from 0 to the number of nodes": ptr.dtype.kind in "iu"
            and ptr.shape == (len(y) + 1,)
            and ptr[0] == 0
            and int(ptr[-1]) == nodes
            and bool((np.diff(ptr) > 0).all()),
            **edges_hold(found["edge_index"], nodes, nodes),
        },
    )
    edges, ptr = found["edge_index"].astype(np.int64), ptr.astype(np.int64)
    check_graphs(where, ptr, edges, len(y), nodes)
    x, gold = dense(where, found["x"], nodes), None
    if "node_mask" in found:
        refuse(where, {"node_mask has one entry a node": mask_holds(found["node_mask"], nodes, "node_mask")})
        gold = torch.from_numpy(found["node_mask"].astype(np.float32))[:, None]
    classes = whole_tensor(y)
    return [
        Example(x[a:b], classes[i], gold=None if gold is None else gold[a:b], edges=part, id=i)
        for i, (part, a, b) in enumerate(zip(split_edges(ptr, edges), ptr[:-1], ptr[1:], strict=True))
    ]


def folds(y: np.ndarray, seed: int = 0, count: int = FOLDS) -> np.ndarray:
    """(G,): stratified random folds, from a seed."""
    draw, fold = np.random.default_rng(seed), np.zeros(len(y), dtype=np.int64)
    start = 0
    for label in np.unique(y):
        members = draw.permutation(np.flatnonzero(y == label))
        fold[members] = (start + np.arange(len(members))) % count
        start += len(members)  # rotate, so that small classes do not all start in the first fold
    return fold


def parts_of_folds(of: np.ndarray, fold: int) -> np.ndarray:
    """(G,): 2 for the test fold, 1 for the next one (validation), 0 for the rest."""
    if not 0 <= fold < FOLDS:
        raise ValueError(f"fold={fold}: expected 0 to {FOLDS - 1}.")
    return np.where(of == fold, 2, np.where(of == (fold + 1) % FOLDS, 1, 0))


def _parts(found: Arrays, where: "str | Path", y: np.ndarray, fold: int) -> list[int]:
    if not any(name in found for name in MASKS):
        refuse(where, {"there are three graphs": len(y) >= 3})
        if len(y) < 2 * FOLDS:
            return drawn_parts(y.tolist(), fold)
        return [int(part) for part in parts_of_folds(folds(y), fold)]
    need(where, found, MASKS, "all three masks or none of them")
    for name in MASKS:
        refuse(where, {f"{name} has one entry a graph": mask_holds(found[name], len(y), name)})
    masks = np.stack([found[name].astype(bool) for name in MASKS])
    refuse(
        where,
        {"masks do not overlap": bool((masks.sum(0) <= 1).all()), "each mask has a graph": bool(masks.any(1).all())},
    )
    return [int(part) for part in np.where(masks.any(0), masks.argmax(0), -1)]


def check_graphs(where: "str | Path", ptr: np.ndarray, edges: np.ndarray, graphs: int, nodes: int) -> None:
    """Check that every edge is within one graph."""
    good = len(ptr) == graphs + 1 and ptr[0] == 0 and ptr[-1] == nodes and (np.diff(ptr) > 0).all()
    good = (
        good and edges.ndim == 2 and len(edges) == 2 and (not edges.size or (edges.min() >= 0 and edges.max() < nodes))
    )
    if not good:
        raise ValueError(f"{where} is not a valid set of graphs: nodes or edges are outside of their graph.")
    if not edges.size:
        raise ValueError(f"{where} is not a valid set of graphs: edge_index is empty, no graph has an edge.")
    graph = np.searchsorted(ptr, edges, side="right") - 1
    across = np.flatnonzero(graph[0] != graph[1])
    if len(across):
        at = int(across[0])
        ends = [f"node {edges[side, at]} of graph {graph[side, at]}" for side in (0, 1)]
        raise ValueError(
            f"{where} is not a valid set of graphs: edge_index[:, {at}] joins {' and '.join(ends)}; an edge must "
            "be within one graph."
        )


def split_edges(ptr: np.ndarray, edges: np.ndarray) -> list[Tensor]:
    """The edges of each graph, (2, E), with nodes counted from 0."""
    graph = np.searchsorted(ptr, edges[1], side="right") - 1
    order = np.argsort(graph, kind="stable")
    cuts = np.searchsorted(graph[order], np.arange(len(ptr)))
    return [torch.from_numpy(edges[:, order[a:b]] - first) for a, b, first in zip(cuts, cuts[1:], ptr, strict=False)]


def one_hot(tags: np.ndarray, count: int) -> np.ndarray:
    """(N,) tags from 0 -> (N, count) of 0 and 1."""
    return F.one_hot(torch.from_numpy(tags.astype(np.int64)), count).float().numpy()


def set_arrays(graphs: Sequence[Any]) -> dict[str, np.ndarray]:
    """The concatenated arrays of a list of torch_geometric Data."""
    some = list(graphs)
    for place, one in enumerate(some):
        for name in ("x", "edge_index", "y"):
            if getattr(one, name, None) is None:
                raise ValueError(f"graph {place} of the list has no {name}: expected torch_geometric Data with {FORM}.")
    if not some:
        raise ValueError("the list of graphs is empty: expected torch_geometric Data.")
    xs = [as_array(one.x) for one in some]
    widths = {x.shape[1:] for x in xs}
    if len(widths) > 1:
        raise ValueError(f"graphs of the list have features of shapes {sorted(widths)}: expected one width.")
    ptr = np.cumsum([0, *(len(x) for x in xs)])
    edges = [as_array(one.edge_index) for one in some]
    for place, (one, x) in enumerate(zip(edges, xs, strict=True)):
        refuse(f"graph {place} of the list", edges_hold(one, len(x), len(x)))
    found = {
        "x": np.concatenate(xs),
        "ptr": ptr,
        "edge_index": np.concatenate([one + first for one, first in zip(edges, ptr, strict=False)], 1),
        "y": np.concatenate([as_array(one.y).reshape(-1)[:1] for one in some]),
    }
    if all(getattr(one, "node_mask", None) is not None for one in some):
        found["node_mask"] = np.concatenate(
            [as_array(one.node_mask).reshape(len(x), -1)[:, 0] for one, x in zip(some, xs, strict=True)]
        )
    return found
