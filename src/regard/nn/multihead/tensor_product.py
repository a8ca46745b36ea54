"""Tensor-product attention: queries, keys and values of all heads are sums of a few outer products a token."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked, whole
from regard.core.attend import Attended, attend
from regard.core.scores import Rotary
from regard.core.structures import Structure

from ..kv_cache import Cache
from .projections import check_width, joined


class TensorProductAttention(nn.Module):
    """Each token's heads are a matrix of low rank, and only its two factors are cached.

        q_ih = sum_r A^q_r(x_i)_h rope(B^q_r(x_i)) / rank_q,   keys likewise, values without rope
        y = W_o attend(q, k, v)

    x (..., n, dim)  ->  out (..., n, dim) and the map (..., heads, n, m)

    rank, rank_q   outer products of keys and values (2 in the paper), and of queries (6)
    cache          a `Cache`: it holds 2 rank (heads + d) numbers a token instead of 2 heads d

    Also known as: TPA, T6.
    Zhang et al. 2025. With A fixed to unit vectors and rank = heads it is multi-head attention.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        rank: int = 2,
        rank_q: int = 6,
        d: int | None = None,
        rotary: bool = True,
        align: "str | Alignment" = "softmax",
    ):
        super().__init__()
        name = type(self).__name__
        self.d = whole(max(1, dim // heads) if d is None else d, name, "d")
        self.dim, self.heads, self.align = dim, heads, align
        self.rank, self.rank_q = whole(rank, name, "rank"), whole(rank_q, name, "rank_q")
        ranks = {"q": self.rank_q, "k": self.rank, "v": self.rank}
        self.over_heads = nn.ModuleDict({key: nn.Linear(dim, r * heads, bias=False) for key, r in ranks.items()})
        self.over_width = nn.ModuleDict({key: nn.Linear(dim, r * self.d, bias=False) for key, r in ranks.items()})
        self.out_proj = nn.Linear(heads * self.d, dim, bias=False)
        self.rotary = Rotary(self.d) if rotary else None

    def forward(self, x: Tensor, over: Structure | None = None, *, cache: Cache | None = None) -> Attended:
        check_width(type(self).__name__, x, self.dim)
        start = 0 if cache is None else cache.position
        factors = {key: self._factors(key, x, start) for key in ("q", "k", "v")}
        if cache is not None:
            if over is None:
                raise ValueError('cache= needs over=: over=Causal(align="end") lets the last query see every key.')
            kept = [torch.cat(factors[key], -1).flatten(-2).unsqueeze(-3) for key in ("k", "v")]  # one head
            for key, y in zip(("k", "v"), cache.append(*kept), strict=True):
                both = y.squeeze(-3).unflatten(-1, (self.rank, -1))
                factors[key] = (both[..., : self.heads], both[..., self.heads :])
        q, k, v = (torch.einsum("...nrh,...nrd->...hnd", *factors[key]) for key in ("q", "k", "v"))
        q, k, v = q / self.rank_q, k / self.rank, v / self.rank
        attended = attend(q, k, v, align=self.align, over=over)
        return Attended(self.out_proj(joined(attended.out)), attended.map)

    def _factors(self, key: str, x: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """A (..., n, rank, heads) and B (..., n, rank, d), with rotary positions."""
        rank = self.rank_q if key == "q" else self.rank
        a, b = (part[key](x).unflatten(-1, (rank, -1)) for part in (self.over_heads, self.over_width))
        if self.rotary is not None and key != "v":
            b = self.rotary(b.transpose(-3, -2), start).transpose(-3, -2)
        return a, b
