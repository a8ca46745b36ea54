"""A map as a pandas DataFrame."""

from itertools import product
from typing import Any

from torch import Tensor

from .attention_map import AttentionMap, PerItem, operation


@operation
def as_table(amap: AttentionMap) -> Any:
    """A row for each query of each item and head, a column for each key; of a graph a row for each edge."""
    try:
        import pandas
    except ImportError as error:
        raise ModuleNotFoundError("to_pandas() needs pandas, which is not installed: pip install pandas.") from error
    if getattr(amap, "graph", None) is not None:
        return _edges(pandas, amap)
    weights = _numbers(amap.weights())
    axes = [f"item {i}" if len(amap.lead) > 2 else "item" for i in range(len(amap.lead) - 1)]
    axes += ["head"] * bool(amap.lead) + ["feature"] * (amap.features is not None)
    sizes = (*amap.lead, *(() if amap.features is None else (amap.features,)))
    rows, columns = (_labels(x, size) for x, size in ((amap.rows, amap.n), (amap.columns, amap.m)))
    keys = pandas.Index(columns, name="key")
    if not sizes:
        return pandas.DataFrame(weights, index=pandas.Index(rows, name="query"), columns=keys)
    index = pandas.MultiIndex.from_tuples(
        [(*place, row) for place in product(*map(range, sizes)) for row in rows], names=[*axes, "query"]
    )
    return pandas.DataFrame(weights.reshape(-1, amap.m), index=index, columns=keys)


def _numbers(x: Tensor) -> Any:
    x = x.detach().cpu()
    return (x.float() if x.dtype.itemsize < 4 else x).numpy()


def _labels(labels: Any, size: int) -> Any:
    """Labels of rows or columns if all items share them; else positions."""
    return (
        list(labels) if labels is not None and not isinstance(labels, PerItem) and len(labels) == size else range(size)
    )


def _ends(graph: Any) -> tuple[Tensor, Tensor]:
    """Source and target of each of the caller's edges; -1 for a replaced self-loop."""
    source, target = (graph.source.new_full((graph.edges,), -1) for _ in range(2))
    own = graph.edge < graph.edges  # the others are added self-loops
    ids = graph.edge[own].long()
    source[ids], target[ids] = graph.source[own], graph.targets()[own].to(target.dtype)
    return source, target


def _edges(pandas: Any, amap: Any) -> Any:
    found = _numbers(amap.edges())
    found = found.reshape(-1, found.shape[-1])
    index = getattr(amap, "edge_index", None)
    source, target = _ends(amap.graph) if index is None else index
    ends = {"source": source.cpu().numpy(), "target": target.cpu().numpy()}
    heads = {"weight": found[0]} if len(found) == 1 else {f"head {h}": row for h, row in enumerate(found)}
    return pandas.DataFrame(ends | heads)
