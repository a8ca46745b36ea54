"""AG News: topic classification, four classes."""

import csv
from pathlib import Path

import numpy as np
import torch

from regard.data.batch import Example
from regard.data.files import data_file, read_lines
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary, tokens

NAMES = ("world", "sports", "business", "science")


def ag_news(folder: "str | Path | None" = None, split: int = 0, least: int = 2) -> Task:
    """Title and description of a news item, four classes; read from text/ag_news_test.csv.gz in REGARD_DATA.

    These are the 7600 rows of the published test part alone, shuffled by the seed `split` and split into 5600 train,
    1000 val and 1000 test: accuracies are not comparable with published ones, whose training part has
    120,000 rows. Zhang, Zhao and LeCun 2015.
    """
    rows = _rows(folder)
    texts = [tokens(row.lower()) for _, row in rows]
    cuts = _cuts(len(rows), split)
    words = Vocabulary.of((texts[place] for place in cuts[0]), least=least)
    parts = (
        [Example(words.encode(texts[place]), torch.tensor(rows[place][0]), id=place) for place in cut] for cut in cuts
    )
    return Task("agnews", *parts, classes=4, words=words, names=NAMES)


def items(folder: "str | Path | None" = None, split: int = 0) -> list[tuple[int, tuple[str, ...], int]]:
    """For each test item: its row, its original words, its class."""
    rows = _rows(folder)
    return [(place, tuple(tokens(rows[place][1])), rows[place][0]) for place in _cuts(len(rows), split)[2]]


def _rows(folder: "str | Path | None") -> list[tuple[int, str]]:
    """Class from 0, and title and description in one line."""
    path = data_file("text/ag_news_test.csv.gz", folder)
    rows = list(csv.reader(read_lines(path)))
    for at, row in enumerate(rows, 1):
        if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
            raise ValueError(f"{path}, row {at}: expected a class from 1 to 4, a title and a description.")
    return [(int(row[0]) - 1, f"{row[1]} {row[2]}".replace("\\", " ")) for row in rows]


def _cuts(count: int, split: int) -> tuple[list[int], list[int], list[int]]:
    """Indices of the train, val and test rows."""
    order, held = np.random.default_rng(split).permutation(count).tolist(), count * 1000 // 7600
    return order[: -2 * held], order[-2 * held : -held], order[-held:]
