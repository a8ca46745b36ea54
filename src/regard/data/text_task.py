"""A classification task of a user's texts."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import torch

from .batch import Example
from .readers.labelled_text import LabelledText, LabelledTexts
from .readers.splits import PARTS, completed, drawn_parts
from .readers.text_file import labelled
from .task import Task
from .vocabulary import Vocabulary


@dataclass(eq=False, repr=False)
class TextTask(Task):
    """texts: by example id, the original words and rationales; places: by example id, the word index of each token."""

    _: KW_ONLY
    texts: tuple[LabelledText, ...] = ()
    places: tuple[tuple[int, ...], ...] = ()


def text_task(path: "str | Path", given: LabelledTexts, split: int = 0, least: int = 1, longest: int = 0) -> TextTask:
    """A task with lower-cased words and the vocabulary of the training part.

    split     the seed of a stratified random split of 70, 15 and 15 %, unless the file has a column split;
              duplicate texts share a part
    least     minimum count of a word in the training part to be in the vocabulary
    longest   maximum number of words of a text; 0: no limit
    """
    given = labelled(path, given)
    pieces = [one.in_tokens() for one in given.texts]
    texts = tuple(_cut(one, longest) for one, _ in pieces)
    places = tuple(where[: len(one.words)] for one, (_, where) in zip(texts, pieces, strict=True))
    classes = [one.label for one in texts]
    order = sorted({label for label in classes if label is not None})
    number = {label: place for place, label in enumerate(order)}
    names = tuple(given.names[label] for label in order) if given.names else tuple(map(str, order))
    if texts[0].part:
        parts = completed([PARTS.index(one.part) for one in texts], classes, split)
    else:
        parts = drawn_parts(classes, split, [one.words for one in texts])
    _each_has_some(path, parts)
    spoken = [[word.lower() for word in one.words] for one in texts]
    words = Vocabulary.of((text for text, part in zip(spoken, parts, strict=True) if part == 0), least=least)
    marked = any(one.marks is not None for one in texts)
    made: list[list[Example]] = [[], [], []]
    for place, (one, text, part) in enumerate(zip(texts, spoken, parts, strict=True)):
        marks = one.marks or (False,) * len(text)
        gold = torch.tensor(marks, dtype=torch.float32) if marked else None
        target = torch.tensor(number[one.label]) if one.label is not None else torch.tensor(0)
        made[part].append(Example(words.encode(text), target, gold=gold, id=place))
    return TextTask(given.name, *made, classes=len(order), words=words, names=names, texts=texts, places=places)


def _cut(one: LabelledText, longest: int) -> LabelledText:
    if not 0 < longest < len(one.words):
        return one
    return replace(one, words=one.words[:longest], marks=None if one.marks is None else one.marks[:longest])


def _each_has_some(path: "str | Path", parts: Sequence[int]) -> None:
    empty = [name for number, name in enumerate(PARTS) if number not in parts]
    if empty:
        raise ValueError(
            f"{path}: the part {empty[0]!r} is empty: write train, val or test into the column split, or omit "
            "the column for a random split."
        )
