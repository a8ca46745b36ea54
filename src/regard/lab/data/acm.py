"""ACM: papers, their authors, their subjects."""

from pathlib import Path

import numpy as np

from regard.data.files import data_file, read_arrays
from regard.data.hetero import TypedTask
from regard.data.readers.arrays import CSR, refuse, within
from regard.data.readers.graph_file import MASKS
from regard.data.readers.hetero_file import typed_task

LABELS = (20, 40, 60)
PARTS = ("train", "val", "test")
_ARRAYS = ("x_p_data", "x_p_indices", "x_p_indptr", "x_p_shape", "y", "edge_pa", "edge_ps")


def acm(labels: int = 20, folder: "str | Path | None" = None) -> TypedTask:
    """In which of three fields was a paper published? 20, 40 or 60 labelled papers a class, 1000 for validation and
    1000 for test, the split of Wang, Liu, Han and Shi 2021 (HeCo).

    Words of a paper are its features: 1 where it has the word. Authors and subjects have one-hot ids.
    Edges in both directions. Read from hetero_graphs/acm.npz in `folder`, else in REGARD_DATA.
    """
    if labels not in LABELS:
        raise ValueError(f"acm(labels={labels}): expected one of {', '.join(map(str, LABELS))} a class.")
    path = data_file("hetero_graphs/acm.npz", folder)
    parts = [f"{part}_{labels}" for part in PARTS]
    found = read_arrays(path, (*_ARRAYS, *parts))
    papers = len(found["y"])
    refuse(path, {f"{part} names papers": within(found[part], papers, part) for part in parts})
    author, subject = found["edge_pa"], found["edge_ps"]
    refuse(path, {"there are links": author.ndim == subject.ndim == 2 and author.size > 0 and subject.size > 0})
    arrays = {
        **{f"{name}/paper": found[name.replace("x_", "x_p_")] for name in CSR},
        "num_nodes/author": author[1].max() + 1,
        "num_nodes/subject": subject[1].max() + 1,
        "edge_index/paper/by/author": author,
        "edge_index/author/wrote/paper": author[::-1],
        "edge_index/paper/about/subject": subject,
        "edge_index/subject/of/paper": subject[::-1],
        "y/paper": found["y"],
        **{f"{mask}/paper": np.isin(np.arange(papers), found[part]) for mask, part in zip(MASKS, parts, strict=True)},
    }
    return typed_task(arrays, path, f"acm, {labels} labels a class")
