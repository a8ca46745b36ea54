"""A folder in TU format: plain text, one line for each edge, node or graph, counted from 1."""

from pathlib import Path

import numpy as np

from ...core.plural import count_of
from .user_file import existing, text_lines, wrong


def read_tu_folder(folder: "str | Path") -> dict[str, np.ndarray]:
    """The arrays of `read_graphs` from NAME_A.txt (an edge "1, 2" a line), NAME_graph_indicator.txt (the graph of each
    node), NAME_graph_labels.txt, and NAME_node_labels.txt or NAME_node_attributes.txt. Morris et al. 2020.

    Labels may be any integers; classes are numbered in their order. Without node labels or attributes, x is 1.
    """
    folder = existing(folder)
    there = sorted(folder.glob("*_A.txt"))
    if len(there) != 1:
        raise wrong(folder, None, f"there are {len(there)} files NAME_A.txt, expected one: a folder in TU format.")
    name = there[0].name.removesuffix("_A.txt")
    needed = [folder / f"{name}_{what}.txt" for what in ("graph_indicator", "graph_labels")]
    for path in needed:
        if not path.is_file():
            raise wrong(path, None, "this file of the TU format is missing.")
    graph = _whole(needed[0], 1)[:, 0]
    if graph.min() != 1 or (np.diff(graph) < 0).any() or (np.diff(graph) > 1).any():
        line = int(np.argmax((np.diff(graph, prepend=1) < 0) | (np.diff(graph, prepend=1) > 1))) + 1
        raise wrong(needed[0], line, "graphs are counted 1, 2, 3, ..., the nodes of each one after the other.")
    labels = _whole(needed[1], 1)[:, 0]
    if len(labels) != graph[-1]:
        raise wrong(needed[1], None, f"{len(labels)} labels, and {needed[0].name} has {graph[-1]} graphs.")
    edges = _whole(there[0], 2).T - 1
    bad = np.flatnonzero(((edges < 0) | (edges >= len(graph))).any(0))
    if len(bad):
        raise wrong(there[0], int(bad[0]) + 1, f"there are nodes from 1 to {len(graph)} in {needed[0].name}.")
    leaves = np.flatnonzero(graph[edges[0]] != graph[edges[1]])
    if len(leaves):
        raise wrong(there[0], int(leaves[0]) + 1, "this edge joins nodes of different graphs.")
    return {
        "x": _features(folder, name, len(graph)),
        "ptr": np.concatenate([[0], np.bincount(graph - 1).cumsum()]),
        "edge_index": edges,
        "y": np.unique(labels, return_inverse=True)[1],
    }


def _features(folder: Path, name: str, nodes: int) -> np.ndarray:
    made = []
    path = folder / f"{name}_node_labels.txt"
    if path.is_file():
        tags = _whole(path, 1)[:, 0]
        made.append(np.eye(len(np.unique(tags)), dtype=np.float32)[np.unique(tags, return_inverse=True)[1]])
        _as_many(path, len(tags), nodes)
    path = folder / f"{name}_node_attributes.txt"
    if path.is_file():
        made.append(_numbers(path))
        _as_many(path, len(made[-1]), nodes)
    return np.concatenate(made, 1) if made else np.ones((nodes, 1), dtype=np.float32)


def _as_many(path: Path, lines: int, nodes: int) -> None:
    if lines != nodes:
        raise wrong(path, None, f"{count_of(lines, 'line')}, and there are {count_of(nodes, 'node')}.")


def _whole(path: Path, columns: int) -> np.ndarray:
    found = []
    for at, line in enumerate(text_lines(path), 1):
        try:
            row = [int(field) for field in line.split(",")]
        except ValueError:
            row = []
        if len(row) < columns or (columns == 2 and len(row) != 2):
            what = "two whole numbers, such as 1, 2" if columns == 2 else "a whole number"
            raise wrong(path, at, f"{line[:40]!r}: expected {what}.")
        found.append(row[:columns])
    return np.array(found, dtype=np.int64)


def _numbers(path: Path) -> np.ndarray:
    found: list[list[float]] = []
    for at, line in enumerate(text_lines(path), 1):
        try:
            row = [float(field) for field in line.split(",")]
        except ValueError:
            raise wrong(path, at, f"{line[:40]!r}: expected numbers with commas between them.") from None
        if not np.isfinite(row).all() or (found and len(row) != len(found[0])):
            raise wrong(path, at, f"{line[:40]!r}: expected {len(found[0]) if found else 'some'} finite numbers.")
        found.append(row)
    return np.array(found, dtype=np.float32)
