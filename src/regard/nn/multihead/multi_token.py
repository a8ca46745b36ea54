"""Multi-token attention: scores are convolved over neighbouring queries and keys, and weights mixed across heads."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked, whole
from regard.core.attend import Attended, attend
from regard.core.maps.combined import LastRowsMap, MixedHeadsMap
from regard.core.scores import ConvolvedDot, Rotary
from regard.core.structures import Causal, Structure

from ..kv_cache import Cache
from .projections import HeadNorm, check_divides, check_width, joined, split


class MultiTokenAttention(nn.Module):
    """Causal attention whose weights depend on several queries and keys at once, and on the other heads of a group.

        s_h = convolved scores of head h (`ConvolvedDot`),   w_h = align(s_h),   w'_h = sum_{g in group} M_hg w_g
        y = W_o [norm(w'_1 v_1); ...; norm(w'_h v_h)]

    x (..., n, dim)  ->  out (..., n, dim) and the map of w', (..., heads, n, m), which may be signed

    query, key   the size of the kernel over queries and keys: 6 and 11 in the paper
    group        heads whose weights are mixed, 2 in the paper; 1 for none
    cache        a `Cache`, for decoding: it holds queries as well as keys, since the convolution spans past queries

    Also known as: MTA layer.
    Golovneva et al. 2025, without the gain by depth of its norm. At initialisation kernels and mixing are the identity:
    the map is that of softmax attention.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        query: int = 6,
        key: int = 11,
        group: int = 2,
        align: "str | Alignment" = "softmax",
        rotary: bool = True,
    ):
        super().__init__()
        name = type(self).__name__
        self.width = check_divides(name, dim, heads)
        self.dim, self.heads, self.align = dim, heads, align
        self.group = whole(group, name, "group")
        if heads % group:
            raise ValueError(f"{name}(heads={heads}, group={group}): expected a number that divides heads.")
        self.score = ConvolvedDot(heads, query, key)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.mix = nn.Parameter(torch.eye(group).expand(heads // group, -1, -1).clone())
        self.norm = HeadNorm(self.width)
        self.rotary = Rotary(self.width) if rotary else None

    @property
    def mixing(self) -> Tensor:
        """(heads, heads): block-diagonal, a block for each group."""
        return torch.block_diag(*self.mix)

    def forward(self, x: Tensor, over: Structure | None = None, *, cache: Cache | None = None) -> Attended:
        """over: joined to the causal structure, such as Padding."""
        check_width(type(self).__name__, x, self.dim)
        start, n = 0 if cache is None else cache.position, x.shape[-2]
        q, k, v = (split(proj(x), self.heads) for proj in (self.q_proj, self.k_proj, self.v_proj))
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is not None:
            both, v = cache.append(torch.cat([k, q], -1), v)
            k, q = both[..., : self.width], both[..., self.width :]
            q = q[..., max(0, k.shape[-2] - n - self.score.kernel.shape[1] + 1) :, :]  # those in the kernel
        causal: Structure = Causal(align="end")
        beside = v.unflatten(-3, (-1, self.group))  # (..., groups, group, m, d): the values of a group, side by side
        values = beside.transpose(-3, -2).flatten(-2).repeat_interleave(self.group, -3)
        attended = attend(q, k, values, self.score, self.align, causal if over is None else causal & over)
        parts = attended.out[..., -n:, :].unflatten(-1, (self.group, -1))  # what w_g gives of the values of head h
        parts = parts.unflatten(-4, (-1, self.group))  # (..., groups, g, n, h, d)
        out = torch.einsum("khg,...kgnhd->...khnd", self.mix.to(parts.dtype), parts).flatten(-4, -3)
        amap = MixedHeadsMap(LastRowsMap(attended.map, n), self.mixing)
        return Attended(self.out_proj(joined(self.norm(out))), amap)
