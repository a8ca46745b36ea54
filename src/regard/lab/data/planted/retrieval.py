"""Retrieval: the value of a queried key."""

import numpy as np
import torch

from regard.data.batch import Example
from regard.data.task import Task


def retrieval(
    pairs: int = 8, keys: int = 16, values: int = 8, train: int = 4000, val: int = 500, test: int = 500, seed: int = 0
) -> Task:
    """A table of distinct keys with random values, and a query key; the target is its value.

    inputs (pairs, 2) ids of key and value, second (1,) the query key, target the value, gold (pairs,) one-hot
    at the pair that answers. Values have the numbers 0..values - 1 and keys 0..keys - 1.

    Only attention by the query can solve it: an average over pairs knows the values, but not their keys; its best
    prediction is the most frequent value (`most_frequent`).
    """
    if not 1 < pairs <= keys or values < 2:
        raise ValueError(
            f"retrieval(pairs={pairs}, keys={keys}, values={values}): expected 2 <= pairs <= keys and 2 or more values."
        )
    draw = np.random.default_rng(seed)

    def example(place: int) -> Example:
        key, value = draw.permutation(keys)[:pairs], draw.integers(values, size=pairs)
        asked = int(draw.integers(pairs))
        gold = torch.zeros(pairs).index_fill_(0, torch.tensor([asked]), 1.0)
        table = torch.from_numpy(np.stack([key, value], 1))
        return Example(table, torch.tensor(value[asked]), gold, second=torch.tensor([key[asked]]), id=place)

    parts = ([example(place) for place in range(count)] for count in (train, val, test))
    return Task(f"retrieval among {pairs}", *parts, classes=values)


def most_frequent(examples: list[Example], values: int) -> float:
    """How often the most frequent value of the table is right, in expectation over ties: the best without
    the query."""
    right = 0.0
    for one in examples:
        count = torch.bincount(one.inputs[:, 1], minlength=values)
        best = count == count.max()
        right += float(best[one.target]) / float(best.sum())
    return right / len(examples)
