"""Heterogeneous graphs: an .npz file with keys by type, or a PyG HeteroData."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..hetero import EdgeType, MetaPath, TypedTask
from .arrays import CSR, Arrays, as_array, dense, edges_hold, features, need, read_npz, refuse, whole_tensor
from .graph_file import MASKS, node_task

FORM = (
    "x/TYPE (N, F) or num_nodes/TYPE, edge_index/SOURCE/RELATION/TARGET (2, E), y/TYPE (N,) and "
    "optionally train_mask/TYPE, val_mask/TYPE, test_mask/TYPE"
)


def read_hetero_graph(
    source: "str | Path | Any", target: str = "", metapaths: Sequence[str] = (), split: int = 0
) -> TypedTask:
    """Reads a heterogeneous graph from the path of an .npz file, or from a torch_geometric HeteroData.

    x/paper                          (N, F) numbers: the features of the papers; sparse: x_data/paper, x_indices/paper,
                                     x_indptr/paper, x_shape/paper (CSR)
    num_nodes/author                 instead of x/author: the number of nodes, for one-hot features
    edge_index/paper/by/author       (2, E) whole numbers: papers, then authors, each counted from 0
    y/paper                          (N,) the class of each paper from 0, -1 if unknown
    train_mask/paper, val_mask/..., test_mask/...   (N,) optional, all or none; else a random split with the seed
                                                    `split`
    metapath/PAP                     optional: the types and relations of a meta-path, ["paper", "by", "author",
                                     "wrote", "paper"]

    target      the node type to classify, if several have classes
    metapaths   more meta-paths, each "paper/by/author/wrote/paper", of any length, from the target type to itself

    Relations without a reverse get one, prefixed with "rev_", so that every type receives messages.
    """
    if isinstance(source, str | Path):
        return typed_task(read_npz(source), source, Path(source).name, target, metapaths, split)
    return typed_task(hetero_arrays(source), f"the {type(source).__name__}", "graph", target, metapaths, split)


def typed_task(
    found: Arrays,
    where: "str | Path",
    name: str,
    target: str = "",
    metapaths: Sequence[str] = (),
    split: int = 0,
) -> TypedTask:
    """A task from the arrays that `read_hetero_graph` lists, after validation."""
    target = _target(found, where, target)
    edges = {_edge_type(where, key): x for key, x in found.items() if key.startswith("edge_index/")}
    if not edges:
        raise ValueError(f"{where} has no edge_index/SOURCE/RELATION/TARGET. Expected {FORM}.")
    y = found[f"y/{target}"]
    size = _sizes(found, where, edges)
    refuse(where, {f"y/{target} is a class a node": len(y) == size[target] or f"{y.shape} for {size[target]} nodes"})
    for kind, index in edges.items():
        refuse(where, edges_hold(index, size[kind[0]], size[kind[2]], f"edge_index/{'/'.join(kind)}"))
    x = {kind: _features(found, where, kind, count) for kind, count in size.items()}
    own = {"x": np.zeros((len(y), 1)), "edge_index": np.zeros((2, 0), np.int64), "y": y}
    own |= {mask: found[f"{mask}/{target}"] for mask in MASKS if f"{mask}/{target}" in found}
    masks = node_task(own, where, name, split)
    both = _both_ways({kind: whole_tensor(index) for kind, index in edges.items()})
    paths = dict(_named_paths(found, where))
    paths |= {path: _walk(where, path, path.split("/")) for path in metapaths}
    for path, walk in paths.items():
        _check_path(where, path, walk, both, target)
    return TypedTask(name, target, x, whole_tensor(y), both, masks.train, masks.val, masks.test, paths)


def _target(found: Arrays, where: "str | Path", target: str) -> str:
    there = [key.removeprefix("y/") for key in found if key.startswith("y/")]
    if target and target in there:
        return target
    if target or len(there) != 1:
        has = ", ".join(there) or "none"
        raise ValueError(
            f"{where}: target={target!r} must name the node type with classes, y/TYPE; types with y: {has}. "
            f"Expected {FORM}."
        )
    return there[0]


def _edge_type(where: "str | Path", key: str) -> EdgeType:
    parts = key.split("/")[1:]
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"{where}: the key {key!r} is not edge_index/SOURCE/RELATION/TARGET.")
    return parts[0], parts[1], parts[2]


def _sizes(found: Arrays, where: "str | Path", edges: Mapping[EdgeType, Any]) -> dict[str, int]:
    """Number of nodes of each type, in the order of the file."""
    size: dict[str, int] = {}
    for key, x in found.items():
        what, _, kind = key.partition("/")
        if what == "x" and kind:
            size[kind] = len(x)
        elif what == "x_shape" and kind and x.shape == (2,):
            size[kind] = int(x[0])
        elif what == "num_nodes" and kind:
            whole = x.dtype.kind in "iu" and x.size == 1 and 0 < int(x.reshape(-1)[0]) < 2**24
            refuse(where, {f"num_nodes/{kind} is a whole number": whole})
            size.setdefault(kind, int(x.reshape(-1)[0]))
    for source, relation, target in edges:
        for kind in (source, target):
            if kind not in size:
                raise ValueError(
                    f"{where}: edge_index/{source}/{relation}/{target} has the node type {kind!r}, but no "
                    f"x/{kind} or num_nodes/{kind} is there. Expected {FORM}."
                )
    return size


def _features(found: Arrays, where: "str | Path", kind: str, count: int) -> Tensor:
    if f"x/{kind}" in found:
        return dense(where, found[f"x/{kind}"], count, f"x/{kind}")
    if f"x_data/{kind}" in found:
        need(where, found, tuple(f"{name}/{kind}" for name in CSR), f"a sparse x: {', '.join(CSR)}, each /{kind}")
        return features(where, {name: found[f"{name}/{kind}"] for name in CSR}, count)
    return one_hot_numbers(count)


def one_hot_numbers(nodes: int) -> Tensor:
    """(nodes, nodes) torch.sparse: one-hot node ids as features."""
    place = torch.arange(nodes).expand(2, -1)
    return torch.sparse_coo_tensor(place, torch.ones(nodes), (nodes, nodes), is_coalesced=True, check_invariants=False)


def _both_ways(edges: dict[EdgeType, Tensor]) -> dict[EdgeType, Tensor]:
    made = dict(edges)
    for (source, relation, target), index in edges.items():
        back = any(kind[0] == target and kind[2] == source for kind in edges)
        if source != target and not back:
            made[target, f"rev_{relation}", source] = index.flip(0).contiguous()
    return made


def _named_paths(found: Arrays, where: "str | Path") -> dict[str, MetaPath]:
    made = {}
    for key, words in found.items():
        if key.startswith("metapath/"):
            refuse(where, {f"{key} is a list of words": words.dtype.kind == "U" and words.ndim == 1})
            made[key.removeprefix("metapath/")] = _walk(where, key, words.tolist())
    return made


def _walk(where: "str | Path", name: str, words: Sequence[str]) -> MetaPath:
    """["paper", "by", "author", "wrote", "paper"] -> two edge types."""
    if len(words) < 3 or len(words) % 2 == 0:
        raise ValueError(
            f"{where}: the meta-path {name!r} has {len(words)} words, expected alternating types and relations: "
            "paper/by/author/wrote/paper."
        )
    return tuple((words[at], words[at + 1], words[at + 2]) for at in range(0, len(words) - 2, 2))


def _check_path(where: "str | Path", name: str, walk: MetaPath, edges: Mapping[EdgeType, Tensor], target: str) -> None:
    there = ", ".join("/".join(kind) for kind in edges)
    for kind in walk:
        if kind not in edges:
            raise ValueError(f"{where}: the meta-path {name!r} uses {'/'.join(kind)}, which does not exist: {there}.")
    if walk[0][0] != target or walk[-1][2] != target:
        raise ValueError(
            f"{where}: the meta-path {name!r} leads from {walk[0][0]} to {walk[-1][2]}, expected {target}."
        )


def hetero_arrays(data: Any) -> dict[str, np.ndarray]:
    """The arrays of a torch_geometric HeteroData."""
    if not hasattr(data, "edge_types"):
        raise TypeError(
            f"expected the path of an .npz file or a torch_geometric HeteroData, got {type(data).__name__}."
        )
    found = {}
    for kind in data.node_types:
        store = data[kind]
        for name in ("x", "y", *MASKS):
            if name in store and store[name] is not None:
                found[f"{name}/{kind}"] = as_array(store[name])
        if f"x/{kind}" not in found and store.num_nodes is not None:
            found[f"num_nodes/{kind}"] = np.array(int(store.num_nodes))
    for kind in data.edge_types:
        found[f"edge_index/{'/'.join(kind)}"] = as_array(data[kind].edge_index)
    return found
