"""Cross-layer attention: several layers share the keys and values of one of them."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended, attend
from regard.core.scores import Rotary
from regard.core.structures import Structure

from ..kv_cache import Cache
from .projections import check_divides, check_width, joined, key_heads, split


class CrossLayerAttention(nn.Module):
    """A layer with keys and values of its own, or one that attends those of a layer below.

        own:      k, v = W_k x, W_v x;   y = W_o attend(W_q x, k, v);   state = [k; v]
        shared:   y = W_o attend(W_q x, k, v) with the state of the layer below

    x (..., n, dim)  ->  out (..., n, dim), the map (..., heads, n, m), and state (..., kv_heads, m, 2 d)

    own     whether it has keys and values; otherwise it needs state= and no cache, since the layer below has one
    state   `Attended.state` of the layer whose keys and values are read

    Also known as: CLA, cross-layer KV sharing, YOCO.
    Brandon et al. 2024; Sun et al. 2024 (YOCO). Two layers that share halve the cache. Given keys equal to its own,
    a layer gives the same output.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        own: bool = True,
        rotary: bool = True,
        align: "str | Alignment" = "softmax",
    ):
        super().__init__()
        name = type(self).__name__
        self.width = check_divides(name, dim, heads)
        self.dim, self.heads, self.kv_heads, self.align = dim, heads, key_heads(name, heads, kv_heads), align
        self.q_proj, self.out_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.kv_proj = nn.Linear(dim, 2 * self.kv_heads * self.width, bias=False) if own else None
        self.rotary = Rotary(self.width) if rotary else None

    def forward(
        self, x: Tensor, over: Structure | None = None, *, state: Tensor | None = None, cache: Cache | None = None
    ) -> Attended:
        check_width(type(self).__name__, x, self.dim)
        if (state is None) is (self.kv_proj is None):
            given = "state= but has keys of its own" if self.kv_proj is not None else "no state= and has no keys"
            raise ValueError(
                f"CrossLayerAttention(own={self.kv_proj is not None}) was given {given}: a layer with own=False reads "
                "Attended.state of the layer below, state=found.state."
            )
        q = split(self.q_proj(x), self.heads)
        if state is None:
            assert self.kv_proj is not None
            start = 0 if cache is None else cache.position
            k, v = split(self.kv_proj(x), self.kv_heads).chunk(2, -1)
            k = k if self.rotary is None else self.rotary(k, start)
            if cache is not None:
                if over is None:
                    raise ValueError('cache= needs over=: over=Causal(align="end") lets the last query see every key.')
                k, v = cache.append(k, v)
        else:
            if cache is not None:
                raise ValueError("CrossLayerAttention(own=False) has no cache: state= holds all keys.")
            k, v = state.chunk(2, -1)
            start = k.shape[-2] - x.shape[-2]
        q = q if self.rotary is None else self.rotary(q, start)
        attended = attend(q, k, v, align=self.align, over=over)
        return Attended(self.out_proj(joined(attended.out)), attended.map, None, torch.cat([k, v], -1))
