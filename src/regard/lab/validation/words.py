"""Words of models that are built by hand, and texts of them: what each word says is known."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.judging.adapters.inputs import Instance

NOISE = range(1, 21)  # words that say little
EVIDENCE = {1: range(21, 27), 0: range(27, 33)}  # words that decide, by class
MARKS = {1: 33, 0: 34}  # words that have nothing to do with the class, and came with it when a model was made
START = 35  # begins a text, as [CLS] does
WORDS = 36


def strengths(evidence: float, marks: float) -> Tensor:
    """(WORDS,): what each word says, above 0 for class 1."""
    made = torch.zeros(WORDS)
    made[1:21] = torch.linspace(0.05, 0.5, 20) * torch.tensor([1.0, -1.0]).repeat(10)
    for label, sign in ((1, 1.0), (0, -1.0)):
        made[list(EVIDENCE[label])] = sign * evidence * torch.linspace(0.9, 1.1, 6)
        made[MARKS[label]] = sign * marks
    return made


def texts(
    count: int = 60, marked: bool = False, against: bool = False, seed: int = 1
) -> tuple[list[Instance], list[int]]:
    """Instances with one word of evidence, and its place in each (never the first, nor near the end).

    marked   a mark comes with the class; against: that of the other class
    """
    draw = torch.Generator().manual_seed(seed)
    made, places = [], []
    for number in range(count):
        n, label = _pick(draw, 7, 13), number % 2
        tokens = torch.randperm(20, generator=draw)[:n] + 1
        place = _pick(draw, 1, n - 4)
        tokens[place] = EVIDENCE[label][_pick(draw, 0, 6)]
        if marked:
            tokens[n - 3] = MARKS[1 - label if against else label]
        made.append(Instance(tokens, label))
        places.append(place)
    return made, places


def several(count: int, evidence: int = 3) -> list[Instance]:
    """Texts with several words of evidence for one class, anywhere but at the ends."""
    draw = torch.Generator().manual_seed(2)
    made = []
    for number in range(count):
        n, label = _pick(draw, 8, 13), number % 2
        tokens = torch.randperm(20, generator=draw)[:n] + 1
        for place in (torch.randperm(n - 2, generator=draw)[:evidence] + 1).tolist():
            tokens[place] = EVIDENCE[label][_pick(draw, 0, 6)]
        made.append(Instance(tokens, label))
    return made


def cued(count: int) -> list[Instance]:
    """Texts whose last word stands in them before, and the word after that one is the answer: "a b c ... a" -> b.

    Other words of evidence, of either class, stand elsewhere.
    """
    draw = torch.Generator().manual_seed(3)
    made = []
    for number in range(count):
        n, label = _pick(draw, 8, 13), number % 2
        tokens = torch.randperm(20, generator=draw)[:n] + 1
        place = _pick(draw, 1, n - 5)
        tokens[-1] = tokens[place]
        tokens[place + 1] = EVIDENCE[label][_pick(draw, 0, 6)]
        tokens[n - 3] = EVIDENCE[_pick(draw, 0, 2)][_pick(draw, 0, 6)]
        made.append(Instance(tokens, label))
    return made


def started(some: Sequence[Instance]) -> list[Instance]:
    """The same texts after a special token."""
    found = []
    for one in some:
        tokens = torch.cat([torch.tensor([START]), one.tokens])
        found.append(Instance(tokens, one.label, tokens == START))
    return found


def is_evidence(tokens: Tensor, label: int | None = None) -> Tensor:
    """Which tokens are words of evidence, of one class or of either."""
    ranges = EVIDENCE.values() if label is None else [EVIDENCE[label]]
    found = torch.zeros(tokens.shape, dtype=torch.bool)
    for words in ranges:
        found |= (tokens >= words[0]) & (tokens <= words[-1])
    return found


def _pick(draw: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high, (1,), generator=draw))
