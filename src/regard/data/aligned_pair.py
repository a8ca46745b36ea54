"""A sentence, its translation, and the links between their words that people drew."""

from dataclasses import dataclass

Link = tuple[int, int]


@dataclass(frozen=True)
class AlignedPair:
    """A sentence and its translation, with links (place in source, place in target), both counted from 0.

    sure: links that must be there; possible: links that may be there; every sure link is possible (Och & Ney 2003).
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]
