"""AG News: which of four desks does a news item belong to?"""

import csv
from pathlib import Path

import numpy as np
import torch

from .batch import Example
from .files import data_file, read_lines
from .task import Task
from .vocabulary import Vocabulary, tokens

NAMES = ("world", "sports", "business", "science")


def ag_news(folder: "str | Path | None" = None, split: int = 0, least: int = 2) -> Task:
    """Title and description of a news item, four classes; read from text/ag_news_test.csv.gz in REGARD_DATA.

    These are the 7600 rows of the published test part alone, shuffled by the seed `split` and cut into 5600 to train,
    1000 to choose and 1000 to judge: accuracies are not comparable with published ones, whose training part has
    120,000 rows. Zhang, Zhao and LeCun 2015.
    """
    path = data_file("text/ag_news_test.csv.gz", folder)
    rows = list(csv.reader(read_lines(path)))
    for at, row in enumerate(rows, 1):
        if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
            raise ValueError(f"{path}, row {at}: expected a class from 1 to 4, a title and a description.")
    order = np.random.default_rng(split).permutation(len(rows)).tolist()
    texts = [tokens(f"{row[1]} {row[2]}".replace("\\", " ").lower()) for row in rows]
    held = len(rows) * 1000 // 7600
    cuts = (order[: -2 * held], order[-2 * held : -held], order[-held:])
    words = Vocabulary.of((texts[place] for place in cuts[0]), least=least)
    parts = (
        [Example(words.encode(texts[place]), torch.tensor(int(rows[place][0]) - 1), id=place) for place in cut]
        for cut in cuts
    )
    return Task("agnews", *parts, classes=4, words=words, names=NAMES)
