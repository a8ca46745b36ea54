"""Mixture of block attention: each query attends the blocks whose mean key scores highest."""

from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked, whole
from regard.core.attend import Attended, attend
from regard.core.scores import Rotary
from regard.core.structures import Causal, Selected, Structure

from ..kv_cache import Cache
from .projections import check_divides, check_width, joined, key_heads, split


class MixtureOfBlockAttention(nn.Module):
    """Causal attention over the top blocks of keys of each query.

        y = W_o attend(q, k, v; Selected.top_blocks(q, k, block, top) & Causal)

    x (..., n, dim)  ->  out (..., n, dim) and the map (..., heads, n, m)

    dim, heads, kv_heads  as of `Attention`
    block, top            tokens a block, and blocks a query, its own among them
    cache                 a `Cache`, for decoding

    Also known as: MoBA, mixture of block attention.
    Lu et al. 2025. The selection has no gradient. With all blocks selected it is causal attention.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        block: int = 512,
        top: int = 3,
        align: "str | Alignment" = "softmax",
        rotary: bool = True,
    ):
        super().__init__()
        name = type(self).__name__
        self.width = check_divides(name, dim, heads)
        self.dim, self.heads, self.kv_heads, self.align = dim, heads, key_heads(name, heads, kv_heads), align
        self.block, self.top = whole(block, name, "block"), whole(top, name, "top")
        self.q_proj, self.out_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(dim, self.kv_heads * self.width, bias=False) for _ in range(2))
        self.rotary = Rotary(self.width) if rotary else None

    def forward(self, x: Tensor, over: Structure | None = None, *, cache: Cache | None = None) -> Attended:
        """over: joined to the causal structure and the chosen blocks, such as Padding."""
        check_width(type(self).__name__, x, self.dim)
        start = 0 if cache is None else cache.position
        q, k = split(self.q_proj(x), self.heads), split(self.k_proj(x), self.kv_heads)
        v = split(self.v_proj(x), self.kv_heads)
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        chosen: Structure = Selected.top_blocks(q, k, self.block, self.top) & Causal(align="end")
        attended = attend(q, k, v, align=self.align, over=chosen if over is None else chosen & over)
        return Attended(self.out_proj(joined(attended.out)), attended.map)
