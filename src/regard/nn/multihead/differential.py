"""Differential attention: the difference of two softmax maps cancels common noise."""

import math

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended, attend
from regard.core.maps.combined import CombinedMap
from regard.core.structures import Structure

from .projections import HeadNorm, check_divides, check_width, joined, split


class DifferentialAttention(nn.Module):
    """Each head has two softmax maps with queries and keys of their own; the second is subtracted, and noise cancels.

        y_h = (1 - l0) norm((softmax(q1 k1^T / sqrt d) - l softmax(q2 k2^T / sqrt d)) v)
        l = exp(a1 . b1) - exp(a2 . b2) + l0,   l0 = 0.8 - 0.6 exp(-0.3 depth)

    x (..., n, dim)  ->  out (..., n, dim) and the map of the difference, (..., heads, n, n), which is signed

    dim, heads   heads have queries and keys of width dim / heads / 2 twice, and values of width dim / heads
    depth        the layer's place in the network, from 0
    align        of both maps; softmax in the paper

    Also known as: DIFF transformer, differential transformer.
    Ye et al. 2025. The map is first minus l times second: rows sum to 1 - l.
    """

    @checked(depth=0)
    def __init__(
        self, dim: int, heads: int, *, depth: int = 0, align: "str | Alignment" = "softmax", bias: bool = False
    ):
        super().__init__()
        width = check_divides("DifferentialAttention", dim, 2 * heads)
        self.dim, self.heads, self.align = dim, heads, align
        self.start = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.q_proj, self.k_proj = (nn.Linear(dim, dim, bias=bias) for _ in range(2))
        self.v_proj, self.out_proj = (nn.Linear(dim, dim, bias=bias) for _ in range(2))
        self.balance = nn.Parameter(0.1 * torch.randn(4, width))  # a1, b1, a2, b2
        self.norm = HeadNorm(2 * width)

    @property
    def share(self) -> Tensor:
        """l, one number for all heads of the layer."""
        a1, b1, a2, b2 = self.balance.float()
        return (a1 * b1).sum().exp() - (a2 * b2).sum().exp() + self.start

    def forward(self, x: Tensor, over: Structure | None = None) -> Attended:
        check_width("DifferentialAttention", x, self.dim)
        q, k = (split(proj(x), 2 * self.heads) for proj in (self.q_proj, self.k_proj))
        v = split(self.v_proj(x), self.heads)
        first, second = (
            attend(q[..., i::2, :, :], k[..., i::2, :, :], v, align=self.align, over=over) for i in range(2)
        )
        share = self.share.to(v.dtype)
        out = self.norm(first.out - share * second.out) * (1 - self.start)
        one = torch.ones(1, 1, device=x.device)
        amap = CombinedMap((first.map, second.map), (one, -self.share.detach().reshape(1, 1)))
        return Attended(self.out_proj(joined(out)), amap)
