"""Gold links of words for a translator that writes pieces: pairs cut as it cuts them, weights summed back to words."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.aligned_pair import AlignedPair
from regard.data.batch import Example
from regard.data.bpe import Words
from regard.data.translation import TranslationTask


@dataclass(frozen=True, eq=False)
class Pieced:
    """A pair as the model reads and writes it, the gold of its words, and the word of each piece of both sides."""

    example: Example
    gold: AlignedPair
    source: Tensor  # (n,)
    target: Tensor  # (t,), without the end mark

    def by_word(self, weights: Tensor) -> Tensor:
        """w (t, n) of pieces -> (words written, words read): summed over what is read, the mean of what is written."""
        read = weights.new_zeros(weights.shape[0], len(self.gold.source)).index_add(1, self.source, weights)
        rows = weights.new_zeros(len(self.gold.target), read.shape[1]).index_add(0, self.target, read)
        return rows / torch.bincount(self.target, minlength=rows.shape[0])[:, None].to(rows)


def pieced(pairs: Sequence[AlignedPair], task: TranslationTask) -> list[Pieced]:
    """Gold pairs for a task's cutters; a word without a known letter is one unknown piece."""
    assert task.source is not None and task.target is not None
    assert task.words is not None and task.target_words is not None
    made = []
    for place, pair in enumerate(pairs):
        source, of_source = _cut(pair.source, task.source)
        target, of_target = _cut(pair.target, task.target)
        example = Example(task.words.encode(source), task.target_words.encode(target, end=True), id=place)
        made.append(Pieced(example, pair, of_source, of_target))
    return made


def _cut(words: Sequence[str], cutter: Words) -> tuple[list[str], Tensor]:
    cut = [cutter.split(word) or [word] for word in words]
    places = [place for place, pieces in enumerate(cut) for _ in pieces]
    return [piece for pieces in cut for piece in pieces], torch.tensor(places, dtype=torch.long)
