"""A translation task: sentence pairs and the tokenisation of each side."""

from dataclasses import dataclass

from .bpe import Words
from .task import Task


@dataclass(eq=False, repr=False)
class TranslationTask(Task):
    """A translation task. source, target: tokenisers; sources, references: raw test lines."""

    source: Words | None = None
    target: Words | None = None
    sources: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
