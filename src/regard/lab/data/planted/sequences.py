"""Synthetic tasks for comparing sequence models, each for one ability.

A sequence is (n,) tokens and (n,) targets, the next token where it is a target, and -100 elsewhere.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

UNASKED = -100  # torch's ignore_index of cross-entropy


class PlantedSequences(NamedTuple):
    """tokens (N, n), targets (N, n), the size of the vocabulary, and the accuracy of a guess."""

    tokens: Tensor
    targets: Tensor
    vocabulary: int
    chance: float


def recall(count: int, length: int, seed: int, keys: int = 16, values: int = 16) -> PlantedSequences:
    """Multi-query associative recall: a table of keys and values, then every key again in another order.

        k_1 v_1 ... k_D v_D | k_s(1) v_s(1) ... k_s(D) v_s(D),   targets: the values of the second half

    length is that of a sequence, 4 D. Arora et al. 2023 (Zoology).
    """
    pairs = length // 4
    if not 1 <= pairs <= keys:
        raise ValueError(f"recall(length={length}, keys={keys}): expected 4 to {4 * keys}, four times the pairs.")
    draw = np.random.default_rng(seed)
    tokens = np.zeros((count, 4 * pairs), np.int64)
    targets = np.full_like(tokens, UNASKED)
    for row, goal in zip(tokens, targets, strict=True):
        key = draw.permutation(keys)[:pairs]
        value = keys + draw.integers(values, size=pairs)
        again = draw.permutation(pairs)
        row[0 : 2 * pairs : 2], row[1 : 2 * pairs : 2] = key, value
        row[2 * pairs :: 2], row[2 * pairs + 1 :: 2] = key[again], value[again]
        goal[2 * pairs :: 2] = value[again]
    return PlantedSequences(torch.from_numpy(tokens), torch.from_numpy(targets), keys + values, 1 / values)


def induction(count: int, length: int, seed: int, words: int = 16) -> PlantedSequences:
    """Induction: the token that followed the previous occurrence of a word.

        ... s t ... s  ->  t

    Fu et al. 2023 (H3); s is a special token.
    """
    if length < 4:
        raise ValueError(f"induction(length={length}): expected 4 or more.")
    draw = np.random.default_rng(seed)
    tokens = draw.integers(words, size=(count, length))
    place = draw.integers(length - 2, size=count)
    rows = np.arange(count)
    tokens[rows, place], tokens[:, -1] = words, words
    targets = np.full_like(tokens, UNASKED)
    targets[:, -1] = tokens[rows, place + 1]
    return PlantedSequences(torch.from_numpy(tokens), torch.from_numpy(targets), words + 1, 1 / words)


def copying(count: int, length: int, seed: int, words: int = 16, marked: int = 8) -> PlantedSequences:
    """Selective copying: words scattered among blanks, to be repeated in order.

        _ a _ _ b _ c ... | a b c ...,   targets: the words after the bar

    length counts the part before the bar. Gu and Dao 2023 (Mamba).
    """
    if length < marked:
        raise ValueError(f"copying(length={length}, marked={marked}): expected length to be marked or more.")
    draw = np.random.default_rng(seed)
    blank, bar = words, words + 1
    tokens = np.full((count, length + marked), blank, np.int64)
    targets = np.full_like(tokens, UNASKED)
    for row, goal in zip(tokens, targets, strict=True):
        word = draw.integers(words, size=marked)
        row[np.sort(draw.permutation(length)[:marked])] = word
        row[length], row[length + 1 :] = bar, word[:-1]
        goal[length:] = word
    return PlantedSequences(torch.from_numpy(tokens), torch.from_numpy(targets), words + 2, 1 / words)


def needle(count: int, length: int, seed: int, keys: int = 8, values: int = 16, words: int = 16) -> PlantedSequences:
    """Needle in a haystack: two key-value pairs among distractor words; one key is queried at the end.

        ... k v ... k' v' ... | k  ->  v

    The second pair ensures that the needle is found by its key. Kamradt 2023, small.
    """
    if length < 6:
        raise ValueError(f"needle(length={length}): expected 6 or more.")
    draw = np.random.default_rng(seed)
    tokens = keys + values + draw.integers(words, size=(count, length))
    targets = np.full_like(tokens, UNASKED)
    for row, goal in zip(tokens, targets, strict=True):
        places = 2 * np.sort(draw.permutation((length - 1) // 2)[:2])
        key, value = draw.permutation(keys)[:2], keys + draw.integers(values, size=2)
        row[places], row[places + 1] = key, value
        asked = draw.integers(2)
        row[-1], goal[-1] = key[asked], value[asked]
    return PlantedSequences(torch.from_numpy(tokens), torch.from_numpy(targets), keys + values + words, 1 / values)


TASKS: dict[str, Callable[..., PlantedSequences]] = {
    "recall": recall,
    "induction": induction,
    "copying": copying,
    "needle": needle,
}
LENGTHS = {"recall": 32, "induction": 32, "copying": 32, "needle": 32}  # of training; also tested at twice the length
