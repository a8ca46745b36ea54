"""Subword-to-word aggregation: the tokens of each word, and sums or means over them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Words = Sequence[str]


@dataclass(frozen=True, eq=False)
class Cut:
    """A tokenised batch: ids (B, n), real (B, n), word (B, n) the word index of each token, -1 for special tokens.

    places: indices of the texts; counts: number of words of each.
    """

    places: list[int]
    ids: Tensor
    real: Tensor
    word: Tensor
    counts: list[int]

    def inputs(self, device: "torch.device | str") -> dict[str, Tensor]:
        """Inputs of a transformers model."""
        return {"input_ids": self.ids.to(device), "attention_mask": self.real.long().to(device)}

    def gathered(self, values: Tensor, mean: bool = False) -> list[np.ndarray]:
        """A number for each piece, (B, n)  ->  one for each word: the sum over its pieces, or their mean."""
        found = values.detach().double().cpu()
        made = []
        for row, word, count in zip(found, self.word, self.counts, strict=True):
            inside = word >= 0
            total = torch.zeros(count, dtype=torch.float64).index_add_(0, word[inside], row[inside])
            if mean:
                total = total / torch.bincount(word[inside], minlength=count).clamp_min(1)
            made.append(total.numpy())
        return made


def cut(tokenizer: Any, texts: Sequence[Words], size: int = 64, longest: int = 512) -> Iterator[Cut]:
    """Texts in batches of similar length, each with [CLS] and [SEP] where the tokenizer has them.

    Every word has a token, if need be an unknown one. A text of more tokens than `longest` is refused rather than
    truncated silently.
    """
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        made = tokenizer(
            [list(texts[place]) for place in places], is_split_into_words=True, padding=True, return_tensors="pt"
        )
        ids, real = made["input_ids"], made["attention_mask"].bool()
        if ids.shape[1] > longest:
            raise ValueError(
                f"A text of {len(texts[places[0]])} words has {ids.shape[1]} pieces, more than the "
                f"{longest} that the model reads: cut it into shorter ones."
            )
        word = torch.tensor([[-1 if one is None else one for one in made.word_ids(row)] for row in range(len(places))])
        counts = [len(texts[place]) for place in places]
        for row, count in enumerate(counts):
            missing = sorted(set(range(count)) - set(word[row].tolist()))
            if missing:
                raise ValueError(f"The tokenizer has no piece for the word {texts[places[row]][missing[0]]!r}.")
        yield Cut(places, ids, real, word, counts)
