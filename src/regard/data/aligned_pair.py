"""A sentence pair with human word alignment."""

from dataclasses import dataclass

Link = tuple[int, int]


@dataclass(frozen=True)
class AlignedPair:
    """A sentence and its translation, with links (place in source, place in target), both counted from 0.

    sure: sure links S, possible links P, S a subset of P (Och & Ney 2003).
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]
