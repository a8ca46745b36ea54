"""ACM: papers, their authors, their subjects."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.files import data_file, read_arrays
from regard.data.hetero import TypedTask

LABELS = (20, 40, 60)
PARTS = ("train", "val", "test")
_ARRAYS = ("x_p_data", "x_p_indices", "x_p_indptr", "x_p_shape", "y", "edge_pa", "edge_ps")


def acm(labels: int = 20, folder: "str | Path | None" = None) -> TypedTask:
    """In which of three fields was a paper published? 20, 40 or 60 labelled papers a class, 1000 to choose by and
    1000 to judge on, as Wang, Liu, Han and Shi 2021 (HeCo) split them.

    Words of a paper are its features: 1 where it has the word. Authors and subjects have none but their number
    (one-hot). Edges go both ways. Read from hetero_graphs/acm.npz in `folder`, else in REGARD_DATA.
    """
    if labels not in LABELS:
        raise ValueError(f"acm(labels={labels}): expected one of {', '.join(map(str, LABELS))} a class.")
    path = data_file("hetero_graphs/acm.npz", folder)
    parts = [f"{part}_{labels}" for part in PARTS]
    found = read_arrays(path, (*_ARRAYS, *parts))
    papers = _checked(found, path, parts)
    start, column, author, subject = (_tensor(found[n]) for n in ("x_p_indptr", "x_p_indices", "edge_pa", "edge_ps"))
    row = torch.repeat_interleave(torch.arange(papers), start.diff())
    words = _entries(torch.stack([row, column]), (papers, int(found["x_p_shape"][1])))
    x = {"paper": words, "author": _one_hot(int(author[1].max()) + 1), "subject": _one_hot(int(subject[1].max()) + 1)}
    edges = {
        ("paper", "by", "author"): author,
        ("author", "wrote", "paper"): author.flip(0).contiguous(),
        ("paper", "about", "subject"): subject,
        ("subject", "of", "paper"): subject.flip(0).contiguous(),
    }
    masks = (torch.zeros(papers, dtype=torch.bool).index_fill(0, _tensor(found[part]), True) for part in parts)
    return TypedTask(f"acm, {labels} labels a class", "paper", x, _tensor(found["y"]), edges, *masks)


def _one_hot(nodes: int) -> Tensor:
    return _entries(torch.arange(nodes).expand(2, -1), (nodes, nodes))


def _entries(places: Tensor, size: tuple[int, int]) -> Tensor:
    ones = torch.ones(places.shape[1])
    return torch.sparse_coo_tensor(places, ones, size, is_coalesced=True, check_invariants=False)


def _tensor(x: np.ndarray) -> Tensor:
    return torch.from_numpy(x.astype(np.int64))


def _checked(found: dict[str, np.ndarray], path: Path, parts: list[str]) -> int:
    """The number of papers, once every index is known to stay within the arrays that it points into."""
    shape, start, column, y = (found[name] for name in ("x_p_shape", "x_p_indptr", "x_p_indices", "y"))
    papers, links, chosen = len(y), [found["edge_pa"], found["edge_ps"]], [found[part] for part in parts]
    whole = all(x.dtype.kind in "iu" for x in (shape, start, column, y, *links, *chosen))
    rows = np.searchsorted(start, np.arange(len(column)), side="right") if start.ndim == 1 else start
    good = {
        "indices are whole numbers": whole,
        "x_p_shape is (papers, words)": whole and shape.shape == (2,) and int(shape[0]) == papers,
        "x_p_indptr rises from 0 to the number of entries": start.shape == (papers + 1,)
        and start[0] == 0
        and start[-1] == len(column) == len(found["x_p_data"])
        and bool((np.diff(start) >= 0).all()),
        "x_p_indices names words": column.ndim == 1 and _within(column, int(shape[-1])),
        "words rise within a row": bool((np.diff(column)[np.diff(rows) == 0] > 0).all()),
        "links (2, E) lead from papers to a number": all(
            e.ndim == 2 and e.shape[0] == 2 and e.size and _within(e[0], papers) and _within(e[1], 2**20) for e in links
        ),
        "y is a class a paper": y.ndim == 1 and _within(y, papers),
        "parts name papers": all(part.ndim == 1 and _within(part, papers) for part in chosen),
        "parts do not overlap": len(np.unique(np.concatenate(chosen))) == sum(len(part) for part in chosen),
    }
    wrong = [claim for claim, held in good.items() if not held]
    if wrong:
        raise ValueError(f"{path} is not the graph of papers as expected; this does not hold: {wrong[0]}.")
    return papers


def _within(x: np.ndarray, size: int) -> bool:
    return x.size == 0 or (int(x.min()) >= 0 and int(x.max()) < size)
