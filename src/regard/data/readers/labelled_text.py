"""Texts with classes as words, and the words that people called the reason."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..vocabulary import tokens


@dataclass(frozen=True)
class LabelledText:
    """Words, the class by number, where people marked the reason (one for each word), the part of the data that it
    belongs to (train, val, test; "" where nobody says), and each word's share of the reading time."""

    words: tuple[str, ...]
    label: int | None = None
    marks: tuple[bool, ...] | None = None
    name: str = ""
    part: str = ""
    reading: tuple[float, ...] | None = None

    def in_tokens(self) -> tuple["LabelledText", tuple[int, ...]]:
        """The same with marks of punctuation as words of their own, and the word that each is a piece of; a mark of
        people stays with every piece of its word."""
        pieces = [tokens(word) or [word] for word in self.words]
        words = tuple(piece for some in pieces for piece in some)
        places = tuple(place for place, some in enumerate(pieces) for _ in some)
        marks = None if self.marks is None else tuple(self.marks[place] for place in places)
        return replace(self, words=words, marks=marks), places


@dataclass(frozen=True)
class LabelledTexts:
    """Texts to learn from or to judge on; names of the classes in order, empty where classes are mere numbers."""

    name: str
    texts: tuple[LabelledText, ...]
    names: tuple[str, ...] = ()

    def at(self, places: Sequence[int]) -> "LabelledTexts":
        """Those at some places."""
        return replace(self, texts=tuple(self.texts[place] for place in places))


def spread(count: int, limit: int | None = None) -> list[int]:
    """At most `limit` of `count` places, evenly over all of them: a file may be sorted."""
    return list(range(count)) if limit is None or limit >= count else [at * count // limit for at in range(limit)]


def named_classes(name: str, texts: Sequence[LabelledText], labels: Sequence[str | None]) -> LabelledTexts:
    """Classes by number: whole numbers are those numbers, names are counted in the order of the alphabet."""
    there = {label for label in labels if label is not None}
    numbers = all(label.isascii() and label.isdigit() for label in there)
    order = sorted(there)
    number = {label: int(label) if numbers else order.index(label) for label in there}
    made = [
        replace(one, label=None if label is None else number[label]) for one, label in zip(texts, labels, strict=True)
    ]
    return LabelledTexts(name, tuple(made), () if numbers else tuple(order))
