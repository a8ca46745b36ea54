"""Arrays of a graph from files and PyG objects, validated before use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files import array_names, read_arrays
from .user_file import existing, wrong

Arrays = Mapping[str, np.ndarray]
CSR = ("x_data", "x_indices", "x_indptr", "x_shape")
LARGEST = 2**31  # maximum unpacked bytes of a file of arrays


def read_npz(path: "str | Path") -> dict[str, np.ndarray]:
    """Every array of an .npz file, without pickles."""
    path = existing(path)
    if path.suffix.lower() != ".npz" or path.is_dir():
        raise wrong(
            path, None, "expected a file that ends in .npz: regard.data.save_graph(data, 'mine.npz') writes one."
        )
    return read_arrays(path, array_names(path), LARGEST)


def refuse(where: "str | Path", claims: Mapping[str, object]) -> None:
    """Raise for the first claim that fails: False, or a sentence that says what was found instead."""
    for claim, held in claims.items():
        if isinstance(held, str) or not held:
            more = f" ({held})" if isinstance(held, str) else ""
            raise ValueError(f"{where} is not a valid graph; violated: {claim}{more}.")


def need(where: "str | Path", found: Arrays, names: tuple[str, ...], form: str) -> None:
    """Raise if an array is missing."""
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(
            f"{where} has no array {missing[0]!r}; it has {', '.join(sorted(found)) or 'none'}. Expected {form}."
        )


def within(x: np.ndarray, size: int, name: str = "x") -> "bool | str":
    """True if x has integers from 0 to size - 1, else what is wrong and where."""
    if x.dtype.kind not in "iu":
        return f"{name} is {x.dtype}; write {name}.astype('int64')"
    bad = np.argwhere((x < 0) | (x >= size))
    if not len(bad):
        return True
    at = tuple(bad[0].tolist())
    return f"{name}[{', '.join(map(str, at))}] is {x[at]}"


def edges_hold(edges: np.ndarray, sources: int, targets: int, name: str = "edge_index") -> dict[str, "bool | str"]:
    """Claims about edge_index (2, E)."""
    shaped = edges.ndim == 2 and edges.shape[0] == 2
    turned = f"it is {edges.shape}" + ("; write edge_index.T" if edges.ndim == 2 and edges.shape[1] == 2 else "")
    claims: dict[str, bool | str] = {f"{name} has shape (2, E)": shaped or turned}
    if shaped:
        claims[f"{name}[0] names nodes from 0 to {sources - 1}"] = within(edges[0], sources, f"{name}[0]")
        claims[f"{name}[1] names nodes from 0 to {targets - 1}"] = within(edges[1], targets, f"{name}[1]")
    return claims


def features(where: "str | Path", found: Arrays, nodes: "int | None", normalise: bool = False) -> Tensor:
    """x (N, F), dense, or torch.sparse from a CSR matrix (x_data, x_indices, x_indptr, x_shape)."""
    if "x" in found:
        return dense(where, found["x"], nodes)
    data, column, start, shape = (found[name] for name in CSR)
    count = int(shape[0]) if nodes is None and shape.shape == (2,) else nodes
    whole = all(x.dtype.kind in "iu" for x in (shape, start, column))
    rows = np.searchsorted(start, np.arange(len(column)), side="right") if start.ndim == 1 else start
    rises = (
        start.shape == ((count or 0) + 1,)
        and start[0] == 0
        and start[-1] == len(column) == len(data)
        and bool((np.diff(start) >= 0).all())
    )
    refuse(
        where,
        {
            "x_indices, x_indptr and x_shape are whole numbers": whole,
            "x_shape is (nodes, features)": whole and shape.shape == (2,) and int(shape[0]) == count,
            "x_indptr is non-decreasing from 0 to the number of entries": rises,
            "x_indices names features": column.ndim == 1 and within(column, int(shape[-1]), "x_indices"),
            "x_indices are sorted within a row": column.ndim == 1
            and len(rows) == len(column)
            and bool((np.diff(column)[np.diff(rows) == 0] > 0).all()),
            "x_data is finite": bool(np.isfinite(data).all()),
        },
    )
    values, nodes = data.astype(np.float32), int(shape[0])
    if normalise:
        row = np.repeat(np.arange(nodes), np.diff(start))
        total = np.bincount(row, values.astype(np.float64), nodes)
        values = (values / np.where(total > 0, total, 1.0)[row]).astype(np.float32)
    begin = whole_tensor(start)
    place = torch.stack([torch.repeat_interleave(torch.arange(nodes), begin.diff()), whole_tensor(column)])
    size = (nodes, int(shape[1]))
    return torch.sparse_coo_tensor(place, torch.from_numpy(values), size, is_coalesced=True, check_invariants=False)


def dense(where: "str | Path", x: np.ndarray, nodes: "int | None", name: str = "x") -> Tensor:
    """Features (N, F) as float32."""
    shaped = x.ndim == 2 and x.shape[1] > 0 and (nodes is None or len(x) == nodes)
    rows = "nodes" if nodes is None else str(nodes)
    numbers = x.dtype.kind in "fiub"
    refuse(
        where,
        {
            f"{name} has shape ({rows}, features)": shaped or f"it is {x.shape}",
            f"{name} holds numbers": numbers or f"it is {x.dtype}",
            f"{name} is finite": not numbers or finite(x, name),
        },
    )
    return torch.from_numpy(x.astype(np.float32))


def finite(x: np.ndarray, name: str) -> "bool | str":
    """True if x is finite, else the first entry that is not."""
    bad = np.argwhere(~np.isfinite(x))
    return True if not len(bad) else f"{name}[{', '.join(map(str, bad[0].tolist()))}] is {x[tuple(bad[0])]}"


def mask_holds(mask: np.ndarray, count: int, name: str) -> "bool | str":
    """True if a mask has `count` entries."""
    if mask.shape != (count,):
        return f"{name} is {mask.shape}" + ("; choose one split: mask[:, 0]" if mask.ndim == 2 else "")
    return mask.dtype.kind == "b" or bool(np.isin(mask, (0, 1)).all()) or f"{name} has values other than 0 and 1"


def whole_tensor(x: np.ndarray) -> Tensor:
    """As int64."""
    return torch.from_numpy(x.astype(np.int64))


def as_array(x: Any) -> np.ndarray:
    """A dense tensor or array as numpy array."""
    if isinstance(x, Tensor):
        return (x.to_dense() if x.layout != torch.strided else x).detach().cpu().numpy()
    return np.asarray(x)
