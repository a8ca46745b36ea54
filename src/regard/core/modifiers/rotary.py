"""Rotary position embedding: a transform of queries and keys, not a score."""

import torch
from torch import Tensor, nn

from ..arguments import SMALLEST, number, whole


class Rotary(nn.Module):
    """Positions as rotations: after it, a dot product depends on the distance of two positions alone.

        (x_2c, x_2c+1) at position p is turned by the angle p / base^(2c / d)

    x (..., n, d) with d even  ->  the same shape. Halves layout (x_c with x_{c + d/2}), as in GPT-NeoX and Llama.

    Also known as: RoPE, rotary position embedding.
    Su et al. 2021. rotary(q, p) . rotary(k, p') = rotary(q, p + s) . rotary(k, p' + s) for every shift s.
    """

    def __init__(self, d: int, base: float = 10000.0):
        super().__init__()
        d, base = whole(d, "Rotary", "d"), number(base, "Rotary", "base", SMALLEST)
        if d % 2:
            raise ValueError(f"Rotary(d={d}): expected an even width, since coordinates turn in pairs.")
        self.d, self.base = d, base

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """`start` is the position of the first row (the length of a cache)."""
        if x.shape[-1] != self.d:
            raise ValueError(
                f"Rotary was built for width {self.d}, but x has width {x.shape[-1]}: build it for that width."
            )
        # Computed anew in fp64, not kept in a buffer: module.bfloat16() would round the speeds to 8 bits.
        speed = self.base ** (-torch.arange(0, self.d, 2, device=x.device, dtype=torch.float64) / self.d)
        angle = torch.arange(start, start + x.shape[-2], device=x.device)[:, None] * speed
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def extra_repr(self) -> str:
        return f"d={self.d}, base={self.base:g}"
