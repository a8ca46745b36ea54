"""The transformer block, and an encoder of such blocks."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.maps.attention_map import AttentionMap
from regard.core.structures import Structure
from regard.data.batch import Batch
from regard.nn.attention import Attention
from regard.nn.kv_cache import Cache

from .encoded import Encoded


class TransformerBlock(nn.Module):
    """Pre-norm transformer block: self-attention, optional cross-attention to a memory, and an MLP.

        x = x + attend(norm x);   x = x + attend(norm x, memory);   x = x + W_2 gelu(W_1 norm x)

    x (B, n, dim) -> (B, n, dim). Vaswani et al. 2017; pre-norm: Xiong et al. 2020.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        wide: int,
        dropout: float = 0.0,
        across: bool = False,
        score: str = "scaled_dot",
        align: "str | Alignment" = "softmax",
    ):
        super().__init__()
        self.own = Attention(dim, heads)
        self.across = Attention(dim, heads, score=score, align=align) if across else None
        if not across:
            self.own = Attention(dim, heads, score=score, align=align)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3 if across else 2))
        self.perceptron = nn.Sequential(nn.Linear(dim, wide), nn.GELU(), nn.Dropout(dropout), nn.Linear(wide, dim))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        over: Structure,
        memory: Tensor | Cache | None = None,
        memory_over: Structure | None = None,
        cache: Cache | None = None,
    ) -> tuple[Tensor, list[AttentionMap]]:
        ran = self.own(self.norms[0](x), over=over, cache=cache)
        x, maps = x + self.dropout(ran.out), [ran.map]
        if self.across is not None:
            asked = self.norms[1](x)
            if isinstance(memory, Cache):
                ran = self.across(asked, over=memory_over, cache=memory)
            else:
                ran = self.across(asked, memory, over=memory_over)
            x, maps = x + self.dropout(ran.out), [*maps, ran.map]
        return x + self.dropout(self.perceptron(self.norms[-1](x))), maps


class Transformed(nn.Module):
    """Transformer encoder: positions and blocks on top of `before`, a feature model with values (B, n, dim).

    places: maximum length, for learned positions; None: inputs already have positions.
    """

    def __init__(
        self,
        before: Any,
        heads: int = 4,
        layers: int = 2,
        places: int | None = 512,
        dropout: float = 0.1,
        score: str = "scaled_dot",
        align: "str | Alignment" = "softmax",
    ):
        super().__init__()
        self.before, self.dim = before, int(before.dim)
        self.places = None if places is None else nn.Parameter(torch.randn(places, self.dim) * 0.02)
        self.blocks = nn.ModuleList(
            TransformerBlock(self.dim, heads, 4 * self.dim, dropout, score=score, align=align) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(self.dim)

    def forward(self, batch: Batch) -> Encoded:
        encoded = self.before(batch)
        x = encoded.values if self.places is None else placed(encoded.values, self.places)
        maps: list[AttentionMap] = []
        for block in self.blocks:
            x, more = block(x, encoded.over)
            maps += more
        return Encoded(self.norm(x), encoded.items, encoded.over, real=encoded.real, maps=tuple(maps))


def placed(x: Tensor, places: Tensor, start: int = 0) -> Tensor:
    """x (B, n, dim) plus the learned positions start to start + n."""
    if start + x.shape[1] > len(places):
        raise ValueError(
            f"An input of {start + x.shape[1]} positions, and this model has {len(places)}: build it with "
            f"places={start + x.shape[1]} or more."
        )
    return x * x.shape[-1] ** 0.5 + places[start : start + x.shape[1]]
