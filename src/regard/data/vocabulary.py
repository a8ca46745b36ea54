"""Vocabularies: words and their ids."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

PAD, UNKNOWN, START, END = 0, 1, 2, 3
SPECIAL = ("<pad>", "<unknown>", "<start>", "<end>")
_TOKENS = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")


class Vocabulary:
    """Ids of words; the first four are padding, unknown, start and end.

    encode(["a", "dog"]) -> (2,) int64; decode returns words up to the end token.
    """

    def __init__(self, words: Sequence[str]):
        self.words = (*SPECIAL, *words)
        self.number = {word: place for place, word in enumerate(self.words)}
        if len(self.number) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"Vocabulary(words): the word {twice!r} occurs twice.")

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], most: int | None = None, least: int = 1) -> "Vocabulary":
        """A vocabulary of texts by frequency, ties alphabetically; words that occur at least `least` times."""
        counts = Counter(word for text in texts for word in text)
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return cls([word for word, count in ranked if count >= least and word not in SPECIAL][:most])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: Sequence[str], end: bool = False) -> Tensor:
        numbers = [self.number.get(word, UNKNOWN) for word in text]
        return torch.tensor([*numbers, END] if end else numbers, dtype=torch.int64)

    def decode(self, numbers: "Tensor | Sequence[int]") -> list[str]:
        found = []
        for number in numbers.tolist() if isinstance(numbers, Tensor) else numbers:
            if number == END:
                break
            if number not in (PAD, START):
                found.append(self.words[number])
        return found


def tokens(text: str) -> list[str]:
    """Words and punctuation of a line; word-internal hyphens, apostrophes and periods are kept."""
    return _TOKENS.findall(text)
