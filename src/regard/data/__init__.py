"""Batches, tasks and vocabularies; readers of your own files; data sets of installed packages by name (`registry`)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import DATA

if TYPE_CHECKING:
    from .aligned_pair import AlignedPair
    from .batch import Batch, Example, collate
    from .files import MissingData
    from .hetero import TypedTask
    from .nodes import NodeTask
    from .readers.fixations import read_fixations
    from .readers.graph_file import read_graph
    from .readers.graph_set import read_graphs
    from .readers.hetero_file import read_hetero_graph
    from .readers.pharaoh import read_alignments
    from .readers.reading_times import read_reading_times
    from .readers.save_graph import save_graph
    from .readers.text_file import read_texts
    from .task import Task, batches
    from .translation import TranslationTask
    from .vocabulary import Vocabulary

_LAZY = {  # imported on first use, so that the registry needs no torch
    "AlignedPair": ".aligned_pair",
    "Batch": ".batch",
    "Example": ".batch",
    "collate": ".batch",
    "MissingData": ".files",
    "TypedTask": ".hetero",
    "NodeTask": ".nodes",
    "read_fixations": ".readers.fixations",
    "read_graph": ".readers.graph_file",
    "read_graphs": ".readers.graph_set",
    "read_hetero_graph": ".readers.hetero_file",
    "read_alignments": ".readers.pharaoh",
    "read_reading_times": ".readers.reading_times",
    "save_graph": ".readers.save_graph",
    "read_texts": ".readers.text_file",
    "Task": ".task",
    "batches": ".task",
    "TranslationTask": ".translation",
    "Vocabulary": ".vocabulary",
}

__all__ = [
    "AlignedPair",
    "Batch",
    "Example",
    "MissingData",
    "NodeTask",
    "Task",
    "TranslationTask",
    "TypedTask",
    "Vocabulary",
    "batches",
    "collate",
    "read_alignments",
    "read_fixations",
    "read_graph",
    "read_graphs",
    "read_hetero_graph",
    "read_reading_times",
    "read_texts",
    "save_graph",
]
__all__ += list(DATA)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        globals()[name] = getattr(import_module(_LAZY[name], __name__), name)
        return globals()[name]
    if name.startswith("_") or name not in DATA:
        raise AttributeError(f"module 'regard.data' has no attribute {name!r}; data sets: {', '.join(DATA)}.")
    return DATA[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
