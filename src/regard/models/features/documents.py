"""A document as sentences: a GRU and attention over the words of each, then a GRU over the sentences."""

from typing import Any

import torch
from torch import nn

from regard.core.structures import Padding
from regard.data.batch import Batch

from ..attention_factory import apply_attention, build_attention
from .encoded import Encoded
from .recurrent import run
from .words import Embedded


class Documents(nn.Module):
    """inputs (B, sentences, words) -> values (B, sentences, dim); maps: the attention within each sentence.

        h_sw = GRU(words of s),   c_s = sum_w align(score(q, h_sw)) h_sw,   values = GRU(c_1, c_2, ...)

    maps[0] is (sentences of the batch without padding, 1, 1, words), document after document. The upper level is the
    task model's own attention. Yang et al. 2016.
    """

    def __init__(self, words: int, dim: int, width: int, attention: str = "additive", dropout: float = 0.0):
        super().__init__()
        self.dim = 2 * width
        self.words = Embedded(words, dim, dropout)
        self.lower: Any = nn.GRU(dim, width, bidirectional=True, batch_first=True)
        self.upper: Any = nn.GRU(self.dim, width, bidirectional=True, batch_first=True)
        self.question = nn.Parameter(torch.randn(self.dim) * self.dim**-0.5)
        self.attention = build_attention(attention, self.dim, self.dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Encoded:
        if batch.parts is None:
            raise ValueError("Documents() needs documents: the batch has no parts (the lengths of its sentences).")
        real = batch.real & (batch.parts > 0)
        lengths = batch.parts[real]
        states, last = run(self.lower, self.words.vectors(batch.inputs[real]), lengths)
        inside = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
        encoded = Encoded(self.dropout(states), len(states), Padding(lengths), last, inside)
        attended = apply_attention(self.attention, self.question.expand(len(states), 1, -1), encoded)
        sentences = attended.out.new_zeros(*real.shape, self.dim)
        sentences[real] = attended.out[:, 0]
        values, summary = run(self.upper, self.dropout(sentences), batch.lengths)
        maps = () if self.attention is None else (attended.map,)
        return Encoded(self.dropout(values), len(batch), batch.over, summary, batch.real, maps)
