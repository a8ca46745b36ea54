"""Pieces of words: frequent words stay whole, rare ones are written as several pieces (byte-pair encoding)."""

import re
from collections.abc import Iterable, Sequence

from .vocabulary import SPECIAL, Vocabulary, tokens

CLOSE = "</w>"  # ends the last piece of a word


class Words:
    """No pieces: each word is one. `split` cuts a line, `join` writes it again."""

    def __init__(self, lines: Iterable[str], least: int = 2):
        self.vocabulary = Vocabulary.of((self.split(line) for line in lines), least=least)

    def split(self, line: str) -> list[str]:
        return tokens(line)

    def join(self, words: Sequence[str]) -> str:
        return line_of(" ".join(words))


class Pieces(Words):
    """At most `most` pieces, learned from the lines by `tokenizers`. Sennrich, Haddow and Birch 2016.

    join(split(line)) has the words of the line again, whatever they were, unless they have a letter that no line had.
    """

    def __init__(self, lines: Iterable[str], most: int = 8000):
        from tokenizers import Tokenizer, models, trainers

        words = [word for line in lines for word in tokens(line)]
        # Letters that end a word are given in order. Left to itself the trainer numbers them as its hash table has
        # them, in another order in each process, and breaks ties between merges by these numbers.
        last = sorted({word[-1] + CLOSE for word in words})
        self.model = Tokenizer(models.BPE(unk_token=SPECIAL[1], end_of_word_suffix=CLOSE))
        trainer = trainers.BpeTrainer(
            vocab_size=most, special_tokens=[*SPECIAL, *last], end_of_word_suffix=CLOSE, show_progress=False
        )
        self.model.pre_tokenizer = None
        self.model.train_from_iterator(words, trainer)
        ranked = sorted(self.model.get_vocab().items(), key=lambda pair: pair[1])
        self.vocabulary = Vocabulary([piece for piece, _ in ranked if piece not in SPECIAL])
        self._known: dict[str, list[str]] = {}

    def split(self, line: str) -> list[str]:
        return [piece for word in tokens(line) for piece in self._cut(word)]

    def _cut(self, word: str) -> list[str]:
        if word not in self._known:
            self._known[word] = self.model.encode(word).tokens
        return self._known[word]

    def join(self, words: Sequence[str]) -> str:
        return line_of("".join(words).replace(CLOSE, " ").strip())


def line_of(words: str) -> str:
    """Words with spaces between them as a line is written: marks that close stand at the word before."""
    return re.sub(r" ([.,!?;:%)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", words))
