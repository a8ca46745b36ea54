"""Write a PyG object as an .npz file without pickles, for the readers of graphs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .graph_file import graph_arrays, node_task
from .graph_set import graph_task, set_arrays
from .hetero_file import hetero_arrays, typed_task


def save_graph(data: "Any | Sequence[Any]", path: "str | Path") -> Path:
    """Write a torch_geometric Data, HeteroData or list of Data as an .npz file, for `regard train` and `regard judge`.

        save_graph(data, "mine.npz")     then     regard train gat --data mine.npz

    A Data is a node classification task, a list of Data a graph classification task. The data are validated before
    writing; the file contains no code and is read without torch_geometric.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"save_graph(path={str(path)!r}): expected a name that ends in .npz.")
    if hasattr(data, "edge_types"):
        found = hetero_arrays(data)
        typed_task(found, "the HeteroData", path.name)
    elif hasattr(data, "edge_index") and not isinstance(data, list | tuple):
        found = graph_arrays(data)
        node_task(found, f"the {type(data).__name__}", path.name)
    else:
        found = set_arrays(data)
        graph_task(found, "the list of Data", path.name)
    np.savez_compressed(path, **found)  # type: ignore[arg-type]
    return path
