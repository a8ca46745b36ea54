"""Cora, Citeseer, Pubmed: papers that cite each other."""

from dataclasses import replace
from pathlib import Path

from regard.data.files import data_file
from regard.data.nodes import NodeTask
from regard.data.readers.graph_file import read_graph
from regard.data.readers.user_file import is_path

NAMES = ("cora", "citeseer", "pubmed")


def planetoid(name: str, folder: "str | Path | None" = None, normalise: bool = True) -> NodeTask:
    """A citation graph with its public split: 20 labelled papers a class, 500 validation and 1000 test papers.

    Words of a paper are its features (sparse; Pubmed: TF-IDF), each row divided by its sum unless normalise=False.
    Undirected, without self-loops. Read from planetoid/<name>.npz in `folder`, else in REGARD_DATA.

    Yang, Cohen and Salakhutdinov 2016.
    """
    if name not in NAMES:
        raise ValueError(f"planetoid({name!r}): expected one of {', '.join(NAMES)}.")
    task = read_graph(data_file(f"planetoid/{name}.npz", folder), normalise=normalise)
    return replace(task, name=name, source="", digest="")  # runs refer to it by name


def one_graph(data: str, split: int = 0) -> NodeTask:
    """A citation graph by name, or a user's own by its path (`read_graph`)."""
    if data not in NAMES and is_path(data):
        return read_graph(data, split)
    if data not in NAMES:
        raise ValueError(f"data={data!r}: expected one of {', '.join(NAMES)}, or the path of an .npz file.")
    return planetoid(data)
