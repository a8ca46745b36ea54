"""Talking-heads attention: scores and weights are mixed across heads."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended, attend
from regard.core.maps.combined import MixedHeadsMap
from regard.core.scores import Dot
from regard.core.structures import Structure

from .projections import check_divides, check_width, joined, split


class TalkingHeadsAttention(nn.Module):
    """Linear maps across heads, of the scores before the softmax and of the weights after it.

        s'_h = sum_g P_hg q_g k_g^T / sqrt d,   w_h = align(s'_h),   w'_h = sum_g M_hg w_g,   y_h = w'_h v_h

    x (..., n, dim)  ->  out (..., n, dim) and the map of w', (..., heads, n, n), which may be signed

    Also known as: head mixing, DeepViT re-attention.
    Shazeer et al. 2020. It is attention itself, so every kernel runs it: sum_g P_hg q_g . k_g is the dot product of the
    queries P_hg q_g joined over g with the keys joined over g, which all heads share. With P = M = I it is multi-head
    attention.
    """

    @checked
    def __init__(self, dim: int, heads: int, *, align: "str | Alignment" = "softmax", bias: bool = True):
        super().__init__()
        check_divides("TalkingHeadsAttention", dim, heads)
        self.dim, self.heads, self.align = dim, heads, align
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim, bias=bias) for _ in range(4))
        self.before = nn.Parameter(torch.eye(heads) + 0.02 * torch.randn(heads, heads))  # P
        self.after = nn.Parameter(torch.eye(heads) + 0.02 * torch.randn(heads, heads))  # M

    def forward(self, x: Tensor, over: Structure | None = None) -> Attended:
        check_width("TalkingHeadsAttention", x, self.dim)
        q = split(self.q_proj(x), self.heads) * (self.dim // self.heads) ** -0.5
        mixed = torch.einsum("hg,...gnd->...hngd", self.before.to(q.dtype), q).flatten(-2)  # (..., H, n, H d)
        k, v = self.k_proj(x).unsqueeze(-3), self.v_proj(x).unsqueeze(-3)  # one head of keys, (..., 1, n, H d)
        attended = attend(mixed, k, v, Dot(), self.align, over)
        parts = attended.out.unflatten(-1, (self.heads, -1))  # (..., g, n, h, d_v): what w_g gives of the values of h
        out = torch.einsum("hg,...gnhd->...hnd", self.after.to(q.dtype), parts)
        return Attended(self.out_proj(joined(out)), MixedHeadsMap(attended.map, self.after))
