"""Tokenisation into words or into subwords (byte-pair encoding)."""

import re
from collections.abc import Iterable, Sequence

from .vocabulary import SPECIAL, Vocabulary, tokens

CLOSE = "</w>"  # end-of-word suffix


class Words:
    """Word tokenisation. `split` tokenises a line, `join` detokenises."""

    def __init__(self, lines: Iterable[str], least: int = 2):
        self.vocabulary = Vocabulary.of((self.split(line) for line in lines), least=least)

    def split(self, line: str) -> list[str]:
        return tokens(line)

    def join(self, words: Sequence[str]) -> str:
        return line_of(" ".join(words))


class Pieces(Words):
    """A BPE vocabulary of at most `most` subwords, trained with `tokenizers`. Sennrich, Haddow and Birch 2016.

    join(split(line)) restores the words of a line unless it has characters unseen in training.
    """

    def __init__(self, lines: Iterable[str], most: int = 8000):
        from tokenizers import Tokenizer, models, trainers

        words = [word for line in lines for word in tokens(line)]
        # Word-final characters are passed in order. Otherwise the trainer numbers them in hash order, which differs
        # between processes, and breaks ties between merges by these numbers.
        last = sorted({word[-1] + CLOSE for word in words})
        self.model = Tokenizer(models.BPE(unk_token=SPECIAL[1], end_of_word_suffix=CLOSE))
        trainer = trainers.BpeTrainer(
            vocab_size=most, special_tokens=[*SPECIAL, *last], end_of_word_suffix=CLOSE, show_progress=False
        )
        self.model.pre_tokenizer = None
        self.model.train_from_iterator(words, trainer)
        ranked = sorted(self.model.get_vocab().items(), key=lambda pair: pair[1])
        self.vocabulary = Vocabulary([piece for piece, _ in ranked if piece not in SPECIAL])
        self._cache: dict[str, list[str]] = {}

    def split(self, line: str) -> list[str]:
        return [piece for word in tokens(line) for piece in self._cut(word)]

    def _cut(self, word: str) -> list[str]:
        if word not in self._cache:
            self._cache[word] = self.model.encode(word).tokens
        return self._cache[word]

    def join(self, words: Sequence[str]) -> str:
        return line_of("".join(words).replace(CLOSE, " ").strip())


def line_of(words: str) -> str:
    """Detokenised text: no space before closing punctuation."""
    return re.sub(r" ([.,!?;:%)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", words))
