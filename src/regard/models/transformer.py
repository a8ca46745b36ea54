"""The transformer as a sequence-to-sequence model."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.alignments import Alignment
from ..core.attend import Attended
from ..core.structures import Causal, Padding, Structure
from ..data.batch import Batch
from ..data.vocabulary import START
from ..nn.kv_cache import Cache
from .features.transformed import Transformed, TransformerBlock, placed
from .features.words import Embedded
from .model_output import Answer


@dataclass(eq=False)
class DecoderState:
    """The state of a decoder between two words: caches of each block for itself and for the memory, and the length."""

    own: list[Cache]
    memory: list[Cache]
    over: Structure
    lengths: Tensor
    length: int = 0

    def reorder(self, index: Tensor) -> "DecoderState":
        for cache in (*self.own, *self.memory):
            cache.reorder(index)
        lengths = self.lengths.index_select(0, index)
        return DecoderState(self.own, self.memory, Padding(lengths), lengths, self.length)


class Transformer(nn.Module):
    """Encoder-decoder transformer; Answer.maps are the last block's cross-attention.

    inputs (B, n) words, target (B, t)  ->  Answer.out (B, t, words). score and align are those of
    the cross-attention. Vaswani et al. 2017.
    """

    def __init__(
        self,
        words: int,
        target_words: int,
        dim: int = 128,
        heads: int = 4,
        layers: int = 2,
        dropout: float = 0.1,
        places: int = 256,
        score: str = "scaled_dot",
        align: "str | Alignment" = "softmax",
    ):
        super().__init__()
        self.features = Transformed(Embedded(words, dim, dropout), heads, layers, places, dropout)
        self.words = Embedded(target_words, dim, dropout)
        self.places = nn.Parameter(torch.randn(places, dim) * 0.02)
        self.blocks = nn.ModuleList(
            TransformerBlock(dim, heads, 4 * dim, dropout, True, score, align) for _ in range(layers)
        )
        self.norm, self.logits = nn.LayerNorm(dim), nn.Linear(dim, target_words)

    def forward(self, batch: Batch) -> Answer:
        encoded = self.features(batch)
        x = placed(self.words.vectors(F.pad(batch.target[:, :-1], (1, 0), value=START)), self.places)
        inner = list(encoded.maps)
        for block in self.blocks:
            x, maps = block(x, Causal(), encoded.values, encoded.over)
            inner += maps
        return Answer(self.logits(self.norm(x)), (inner[-1],), tuple(inner[:-1]))

    def begin(self, batch: Batch) -> DecoderState:
        encoded = self.features(batch)
        memory = [block.across.remember(encoded.values) for block in self.blocks]  # type: ignore[union-attr, operator]
        return DecoderState([Cache() for _ in self.blocks], memory, encoded.over, batch.lengths)

    def step(self, word: Tensor, reading: DecoderState) -> tuple[Tensor, DecoderState, Attended]:
        x = placed(self.words.vectors(word[:, None]), self.places, reading.length)
        for block, own, memory in zip(self.blocks, reading.own, reading.memory, strict=True):
            x, maps = block(x, Causal(align="end"), memory, reading.over, own)
        reading.length += 1
        return self.logits(self.norm(x))[:, 0], reading, Attended(x, maps[-1])
