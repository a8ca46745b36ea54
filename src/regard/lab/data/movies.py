"""ERASER Movies: long film reviews with human rationales."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batch import Example, stacked
from regard.data.files import data_file, read_lines
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary

LABELS = ("NEG", "POS")


@dataclass(frozen=True, eq=False)
class Review:
    """An original review. words; label 0 or 1; marks (n,) bool: the words of rationales.

    exhaustive: whether all rationales were marked, or only some.
    """

    words: tuple[str, ...]
    label: int
    marks: np.ndarray
    exhaustive: bool = False


def reviews(folder: "str | Path | None" = None) -> dict[str, list[Review]]:
    """The documents word for word, by part: train, val, test, untruncated; 199 of test are exhaustive."""
    parts: dict[str, list[Review]] = {"train": [], "val": [], "test": []}
    for row in rows(folder):
        words = tuple(row["text"].split())
        full = bool(row.get("rationales_exhaustive", False))
        marks = _marked(row, len(words)).bool().numpy()
        parts[row["split"]].append(Review(words, LABELS.index(row["label"]), marks, full))
    return parts


def movies(folder: "str | Path | None" = None, sentences: int = 80, words: int = 60, least: int = 5) -> Task:
    """Is a review positive? 1600/200/200 documents, read from text/eraser_movies.jsonl.gz in REGARD_DATA.

    An example is a document: inputs (sentences, words), parts (sentences,) their lengths, gold (sentences, words) 1
    for words of rationales (exhaustive in test; incomplete in train and val).
    sentences, words   maximum lengths: of long reviews the last sentences are kept, since the verdict is at
                       the end
    least              minimum count of a word in training reviews to be in the vocabulary

    Zaidan et al. 2007; DeYoung et al. 2020.
    """
    found = rows(folder)
    learned = [row for row in found if row["split"] == "train"]
    known = Vocabulary.of((row["text"].split() for row in learned), least=least)
    parts: dict[str, list[Example]] = {"train": [], "val": [], "test": []}
    for place, row in enumerate(found):
        parts[row["split"]].append(_document(row, known, sentences, words, place))
    return Task("movies", *parts.values(), classes=2, words=known, names=LABELS)


def rows(folder: "str | Path | None" = None) -> list[dict[str, Any]]:
    """The documents of the file: id, split, label, text, rationales."""
    path = data_file("text/eraser_movies.jsonl.gz", folder)
    return [_row(line, f"{path}, line {at}") for at, line in enumerate(read_lines(path), 1)]


def _row(line: str, where: str) -> Any:
    try:
        row = json.loads(line)
        good = row["split"] in ("train", "val", "test") and row["label"] in LABELS and isinstance(row["text"], str)
        spans = [(int(start), int(end)) for start, end in row["rationales"]]
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{where}: expected an object with split, label, text and rationales ({problem}).") from None
    count = len(row["text"].split())
    if not good or not count or any(not 0 <= start <= end <= count for start, end in spans):
        raise ValueError(
            f"{where}: expected split train, val or test, a label ({', '.join(LABELS)}) and rationales within the text."
        )
    return row


def _document(row: Any, known: Vocabulary, sentences: int, words: int, place: int) -> Example:
    lines = [line.split() for line in row["text"].split("\n")]
    marked = _marked(row, sum(map(len, lines)))
    pieces: list[tuple[Tensor, Tensor]] = []
    at = 0
    for line in lines:
        if line:
            pieces.append((known.encode(line[:words]), marked[at : at + min(len(line), words)]))
        at += len(line)
    pieces = pieces[-sentences:]
    lengths = torch.tensor([len(text) for text, _ in pieces])
    text, gold = (stacked([piece[side] for piece in pieces]) for side in (0, 1))
    return Example(text, torch.tensor(LABELS.index(row["label"])), gold=gold, parts=lengths, id=place)


def _marked(row: Any, count: int) -> Tensor:
    """(words,) 1 for words of rationales."""
    marked = torch.zeros(count)
    for start, end in row["rationales"]:
        marked[start:end] = 1.0
    return marked
