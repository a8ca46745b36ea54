"""Attention sinks: a learned logit without a value."""

import torch
from torch import Tensor, nn

from ..arguments import number, whole
from ..errors import check_heads
from ..lowering.tiles import Tile
from .modifier import Modifier


class Sink(Modifier):
    """A key without a value: one learned logit for each head, which joins the softmax.

        w_i = align([s_i1, ..., s_im, logit_h]), without the last

    Also known as: attention sink, learned sink logit.
    The weights of the real keys sum to less than one. Xiao et al. 2024; gpt-oss.
    Sink(heads) learns its logits (H,), from `start`; Sink(logits) takes those of another module.
    """

    kept = ("logits",)
    closed = True

    def __init__(self, heads: "int | Tensor", start: float = 0.0):
        super().__init__()
        if isinstance(heads, Tensor):
            if heads.ndim != 1 or not heads.is_floating_point():
                raise ValueError(f"Sink({heads.dtype} {tuple(heads.shape)}): expected logits (heads,), floating-point.")
            self.logits: Tensor = heads
            return
        heads, start = whole(heads, "Sink", "heads"), number(start, "Sink", "start")
        self.logits = nn.Parameter(torch.full((heads,), start))

    @property
    def sink(self) -> Tensor:  # type: ignore[override]
        return self.logits

    def check(self, heads: int) -> None:
        check_heads(self, self.logits.shape[0], heads)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s
