"""Labelled texts as words, with human rationales."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..vocabulary import tokens


@dataclass(frozen=True)
class LabelledText:
    """Words, class id, rationale (a bool for each word), split (train, val, test; "" if unspecified), and each word's
    share of the reading time."""

    words: tuple[str, ...]
    label: int | None = None
    marks: tuple[bool, ...] | None = None
    name: str = ""
    part: str = ""
    reading: tuple[float, ...] | None = None

    def in_tokens(self) -> tuple["LabelledText", tuple[int, ...]]:
        """Splits off punctuation as tokens, with the word index of each; tokens inherit the rationale mark of their
        word."""
        pieces = [tokens(word) or [word] for word in self.words]
        words = tuple(piece for some in pieces for piece in some)
        places = tuple(place for place, some in enumerate(pieces) for _ in some)
        marks = None if self.marks is None else tuple(self.marks[place] for place in places)
        return replace(self, words=words, marks=marks), places


@dataclass(frozen=True)
class LabelledTexts:
    """Labelled texts; class names in order, empty if classes are numbers."""

    name: str
    texts: tuple[LabelledText, ...]
    names: tuple[str, ...] = ()

    def at(self, places: Sequence[int]) -> "LabelledTexts":
        """The texts at these indices."""
        return replace(self, texts=tuple(self.texts[place] for place in places))


def spread(count: int, limit: int | None = None) -> list[int]:
    """At most `limit` of `count` indices, evenly spaced, since a file may be sorted."""
    return list(range(count)) if limit is None or limit >= count else [at * count // limit for at in range(limit)]


def named_classes(name: str, texts: Sequence[LabelledText], labels: Sequence[str | None]) -> LabelledTexts:
    """Class ids: integers are used as they are, names are numbered alphabetically."""
    there = {label for label in labels if label is not None}
    numbers = all(label.isascii() and label.isdigit() for label in there)
    order = sorted(there)
    number = {label: int(label) if numbers else order.index(label) for label in there}
    made = [
        replace(one, label=None if label is None else number[label]) for one, label in zip(texts, labels, strict=True)
    ]
    return LabelledTexts(name, tuple(made), () if numbers else tuple(order))
