"""Attention sinks: a logit that takes weight and gives nothing."""

import torch
from torch import Tensor, nn

from ..arguments import number, whole
from ..errors import check_heads
from ..lowering.tiles import Tile
from .modifier import Modifier


class Sink(Modifier):
    """A place to look at nothing: one more key with a learned logit and no value, for each head.

        w_i = align([s_i1, ..., s_im, logit_h]), without the last

    Also known as: attention sink, learned sink logit, off-by-one softmax.
    The weights of the real keys sum to less than one. Xiao et al. 2024; gpt-oss. logits (H,)
    """

    kept = ("logits",)
    closed = True

    def __init__(self, heads: int, start: float = 0.0):
        super().__init__()
        heads, start = whole(heads, "Sink", "heads"), number(start, "Sink", "start")
        self.logits: Tensor = nn.Parameter(torch.full((heads,), start))

    @property
    def sink(self) -> Tensor:  # type: ignore[override]
        return self.logits

    def check(self, heads: int) -> None:
        check_heads(self, self.logits.shape[0], heads)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s
