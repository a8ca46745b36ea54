"""A task: training, validation and test examples; and seeded batches of them."""

import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from .batch import Example
from .vocabulary import Vocabulary

POOL = 50  # batches that are sorted by length together


@dataclass(eq=False)
class Task:
    """Disjoint splits, with vocabularies and class names.

    classes   number of classes; 0 if targets are not classes
    words     vocabulary of the inputs; target_words: of the targets
    names     of the classes
    """

    name: str
    train: list[Example]
    val: list[Example]
    test: list[Example]
    _: KW_ONLY
    classes: int = 0
    words: Vocabulary | None = None
    target_words: Vocabulary | None = None
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = "/".join(str(len(part)) for part in (self.train, self.val, self.test))
        return f"Task({self.name}: {parts} train, val and test, {self.classes} classes)"


def batches(examples: Sequence[Example], size: int, seed: int | None = None, epoch: int = 0) -> list[list[int]]:
    """Indices of batches of `size` (the last may be smaller).

    With a seed: shuffled by (seed, epoch), with examples of similar length in a batch. Without: by length, longest
    first, for evaluation.
    """
    if size < 1:
        raise ValueError(f"batches(size={size}): expected 1 or more examples a batch.")
    lengths = np.array([one.length for one in examples], dtype=np.int64)
    if seed is None:
        order = np.argsort(-lengths, kind="stable")
        return [order[at : at + size].tolist() for at in range(0, len(order), size)]
    draw = np.random.default_rng([seed, epoch])
    order = draw.permutation(len(examples))
    pools = [order[at : at + POOL * size] for at in range(0, len(order), POOL * size)]
    order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]) if pools else order
    made = [order[at : at + size].tolist() for at in range(0, len(order), size)]
    return [made[place] for place in draw.permutation(len(made))]


def shares(indices: Sequence[int], count: int) -> list[list[int]]:
    """A batch divided into `count` contiguous parts of nearly equal size; a part may be empty."""
    cuts = [len(indices) * part // count for part in range(count + 1)]
    return [list(indices[a:b]) for a, b in itertools.pairwise(cuts)]
