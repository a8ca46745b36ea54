"""A cipher: an artificial translation task with a known lexicon and word order, hence an exact gold alignment."""

import itertools

import numpy as np
import torch

from regard.data.batch import Example
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary


def cipher(
    words: int = 40,
    shortest: int = 4,
    longest: int = 12,
    train: int = 3000,
    val: int = 300,
    test: int = 300,
    order: str = "phrases",
    doubled: float = 0.25,
    seed: int = 0,
) -> Task:
    """Translate: each source word has its target word, some have two, and the order changes.

    order     "same"; "reversed": the whole sentence; "phrases": sentences consist of phrases of 1 to 4 words, marked by
              their first word (the last quarter of the vocabulary), and each phrase is reversed
    doubled   the share of words whose translation has two words

    inputs (n,), target (t,) with the end token, gold (t, n): the source word of each target word (none for
    the end token). Lexicon and order are drawn from the seed and learnable from pairs alone.
    """
    if order not in ("same", "reversed", "phrases"):
        raise ValueError(f"cipher(order={order!r}): expected same, reversed or phrases.")
    if not 1 <= shortest <= longest or words < 8:
        raise ValueError(
            f"cipher(words={words}, shortest={shortest}, longest={longest}): expected 8 or more words and "
            "1 <= shortest <= longest."
        )
    draw = np.random.default_rng(seed)
    known = Vocabulary([f"s{i}" for i in range(words)])
    two = draw.random(words) < doubled
    names = [f"t{i}" for i in draw.permutation(words)]
    given = Vocabulary([*names, *(f"{names[i]}+" for i in np.flatnonzero(two))])
    lexicon = [[name, f"{name}+"] if twice else [name] for name, twice in zip(names, two, strict=True)]
    heads = words - words // 4  # words from here on begin phrases

    def example(place: int) -> Example:
        length = int(draw.integers(shortest, longest + 1))
        text = draw.integers(heads, size=length)
        at = 0
        while at < length:
            text[at] = draw.integers(heads, words)
            at += int(draw.integers(1, 5))
        read = {"same": np.arange(length), "reversed": np.arange(length)[::-1]}.get(order)
        read = _phrases(text, heads) if read is None else read
        target = [word for i in read for word in lexicon[text[i]]]
        source = [i for i in read for _ in lexicon[text[i]]]
        gold = torch.zeros(len(target) + 1, length)
        gold[torch.arange(len(source)), torch.tensor(np.array(source))] = 1.0
        return Example(known.encode([f"s{i}" for i in text]), given.encode(target, end=True), gold, id=place)

    parts = ([example(place) for place in range(count)] for count in (train, val, test))
    return Task(f"cipher, {order}", *parts, words=known, target_words=given)


def _phrases(text: np.ndarray, heads: int) -> np.ndarray:
    starts = [*np.flatnonzero(text >= heads).tolist(), len(text)]
    return np.concatenate([np.arange(a, b)[::-1] for a, b in itertools.pairwise(starts)])
