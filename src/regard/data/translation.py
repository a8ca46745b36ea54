"""A translation task: sentence pairs, and how each side is cut into words or pieces."""

from dataclasses import dataclass

from .bpe import Words
from .task import Task


@dataclass(eq=False, repr=False)
class TranslationTask(Task):
    """A translation task. source, target: how lines are cut and joined; references: the test lines as they stand."""

    source: Words | None = None
    target: Words | None = None
    sources: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
