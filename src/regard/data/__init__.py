"""What models and judges need of data; and, by name, the data sets that installed packages declare (`registry`)."""

from typing import Any

from .aligned_pair import AlignedPair
from .batch import Batch, Example, collate
from .files import MissingData
from .hetero import TypedTask
from .nodes import NodeTask
from .registry import DATA
from .task import Task, batches
from .translation import TranslationTask
from .vocabulary import Vocabulary

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
]
__all__ += list(DATA)


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in DATA:
        raise AttributeError(f"module 'regard.data' has no attribute {name!r}; data sets: {', '.join(DATA)}.")
    return DATA[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *DATA})
