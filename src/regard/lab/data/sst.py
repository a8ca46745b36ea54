"""The Stanford Sentiment Treebank: sentences of film reviews, each phrase of each judged from 0 to 4."""

import re
from pathlib import Path

import torch

from regard.data.batch import Example
from regard.data.files import data_file, read_lines
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary

PARTS = ("train", "dev", "test")
BRACKETS = {"-lrb-": "(", "-rrb-": ")"}  # how trees write what they use themselves
DEPTH = 200  # how deep a tree may nest
_PIECES = re.compile(r"\(|\)|[^\s()]+")
Phrase = tuple[int, tuple[str, ...]]


def sst(folder: "str | Path | None" = None, classes: int = 2, phrases: bool = True, least: int = 1) -> Task:
    """Is a sentence positive? Read from text/sst_{train,dev,test}.txt.gz in `folder`, else in REGARD_DATA.

    classes   2: negative and positive, neutral sentences left out (6920/872/1821); 5: very negative to very positive
    phrases   every judged phrase of a training sentence is an example too, once; val and test are whole sentences
    least     how often a word must occur in training sentences to have a number of its own

    Words are in lower case. Socher et al. 2013.
    """
    if classes not in (2, 5):
        raise ValueError(f"sst(classes={classes}): expected 2 (negative, positive) or 5.")
    read = {part: _trees(part, folder) for part in PARTS}
    words = Vocabulary.of((found[0][1] for found in read["train"]), least=least)
    whole = {part: [found[0] for found in trees] for part, trees in read.items()}
    learned = whole["train"]
    if phrases:
        learned = [*learned, *dict.fromkeys(phrase for found in read["train"] for phrase in found[1:])]
        learned = list(dict.fromkeys(learned))
    made = [_examples(part, words, classes) for part in (learned, whole["dev"], whole["test"])]
    names = ("negative", "positive") if classes == 2 else ("--", "-", "0", "+", "++")
    return Task("sst", *made, classes=classes, words=words, names=names)


def sentences(part: str, folder: "str | Path | None" = None) -> list[tuple[str, int]]:
    """The sentences of a part (train, dev, test) as text, with 0 for negative and 1 for positive, in their order.

    For models that cut words into pieces of their own: no word is unknown here.
    """
    if part not in PARTS:
        raise ValueError(f"sentences({part!r}): expected one of {', '.join(map(repr, PARTS))}.")
    whole = [found[0] for found in _trees(part, folder)]
    return [
        (" ".join(BRACKETS.get(word, word) for word in words), int(label > 2)) for label, words in whole if label != 2
    ]


def _trees(part: str, folder: "str | Path | None") -> list[list[Phrase]]:
    path = data_file(f"text/sst_{part}.txt.gz", folder)
    return [tree(line.lower(), f"{path}, line {at}") for at, line in enumerate(read_lines(path), 1) if line]


def tree(line: str, where: str = "the tree") -> list[Phrase]:
    """(label, words) of every node of a bracketed tree, the whole sentence first."""
    found: list[Phrase | None] = []
    open_nodes: list[tuple[int, int]] = []  # place in `found`, first word
    labels: list[int] = []
    words: list[str] = []
    pieces = _PIECES.findall(line)
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if piece == "(":
            label = pieces[at + 1] if at + 1 < len(pieces) else ""
            if label not in ("0", "1", "2", "3", "4") or len(open_nodes) >= DEPTH:
                raise ValueError(f"{where}: expected (label ...) with a label from 0 to 4, nested up to {DEPTH} deep.")
            open_nodes.append((len(found), len(words)))
            found.append(None)
            labels.append(int(label))
            at += 2
            continue
        if not open_nodes:
            raise ValueError(f"{where}: {piece[:20]!r} stands outside of all brackets.")
        if piece == ")":
            place, first = open_nodes.pop()
            found[place] = labels[place], tuple(words[first:])
        else:
            words.append(piece)
        at += 1
    if open_nodes or not found or not words:
        raise ValueError(f"{where}: brackets are not closed, or there is no word.")
    return [one for one in found if one is not None]


def _examples(found: list[Phrase], words: Vocabulary, classes: int) -> list[Example]:
    chosen = [(label, text) for label, text in found if classes == 5 or label != 2]
    return [
        Example(words.encode(text), torch.tensor(label if classes == 5 else int(label > 2)), id=place)
        for place, (label, text) in enumerate(chosen)
    ]
