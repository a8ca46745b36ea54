"""Native sparse attention: compressed blocks, selected blocks and a sliding window."""

import torch
from torch import Tensor, nn

from regard.core.arguments import checked, whole
from regard.core.attend import Attended, attend
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.combined import BlocksMap, CombinedMap
from regard.core.scores import Rotary
from regard.core.structures import Causal, PastBlocks, Selected, Structure

from ..kv_cache import Cache
from .projections import check_divides, check_width, joined, key_heads, split


class NativeSparseAttention(nn.Module):
    """Three attentions over compressed blocks, chosen blocks and a window, each a softmax of its own, summed by gates.

        y = g_1 attend(q, K, V; past blocks) + g_2 attend(q, k_2, v_2; chosen blocks) + g_3 attend(q, k_3, v_3; window)
        K = mean of a block's k_1, V of its v_1;  chosen: the blocks with most weight in the first, of each group

    x (..., n, dim)  ->  out (..., n, dim) and the map (..., heads, n, m): the gated sum of the three, over tokens

    dim, heads, kv_heads  GQA: the heads of a group share a selection
    block, top, window    tokens a block (64 in the paper), blocks a query (16, among them the first block, its own and
                          the one before), and tokens of the window (512)
    compress              "mean", or "learned": keys k + a learned place in the block pass through two layers first
    cache                 a `Cache`, for decoding; it holds keys and values of the three branches

    Also known as: NSA, natively sparse attention.
    Yuan et al. 2025. The selection has no gradient: the first branch learns which blocks matter by its own softmax.
    Values of a block are their mean (the paper has a network there too), so that the map over tokens is exact. With
    the first two gates at 0 it is sliding window attention.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        block: int = 64,
        top: int = 16,
        window: int = 512,
        compress: str = "mean",
        rotary: bool = True,
    ):
        super().__init__()
        name = type(self).__name__
        self.width = check_divides(name, dim, heads)
        self.dim, self.heads, self.kv_heads = dim, heads, key_heads(name, heads, kv_heads)
        if compress not in ("mean", "learned"):
            raise ValueError(f'{name}(compress={compress!r}): expected "mean" or "learned".')
        self.block, self.top, self.window = (
            whole(x, name, y) for x, y in ((block, "block"), (top, "top"), (window, "window"))
        )
        self.q_proj, self.out_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(dim, 3 * self.kv_heads * self.width, bias=False) for _ in range(2))
        self.gate_proj = nn.Linear(dim, 3 * heads)
        self.places = nn.Parameter(torch.zeros(block, self.width)) if compress == "learned" else None
        self.mix = (
            nn.Sequential(nn.Linear(self.width, self.width), nn.SiLU(), nn.Linear(self.width, self.width))
            if compress == "learned"
            else None
        )
        self.rotary = Rotary(self.width) if rotary else None

    def forward(self, x: Tensor, over: Structure | None = None, *, cache: Cache | None = None) -> Attended:
        """over: joined to the causal structure of each branch over tokens, such as Padding; blocks see all of it."""
        check_width(type(self).__name__, x, self.dim)
        start = 0 if cache is None else cache.position
        q, k, v = split(self.q_proj(x), self.heads), split(self.k_proj(x), 3 * self.kv_heads), self.v_proj(x)
        v = split(v, 3 * self.kv_heads)
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        keys, values = (y.unflatten(-3, (3, self.kv_heads)).unbind(-4) for y in (k, v))
        m = k.shape[-2]
        blocks = attend(q, self._compressed(keys[0]), self._means(values[0]), over=PastBlocks(self.block, start))
        causal: Structure = Causal(align="end")
        if over is not None:
            causal = causal & over
        chosen = attend(q, keys[1], values[1], over=self.choice(blocks.map, start, m) & causal)
        near = attend(q, keys[2], values[2], over=Causal(align="end", window=self.window) & causal)
        gates = torch.sigmoid(self.gate_proj(x)).unflatten(-1, (3, self.heads)).movedim(-2, 0).mT[..., None]
        found = (blocks, chosen, near)
        out = sum((gate * each.out for gate, each in zip(gates, found, strict=True)), torch.zeros_like(near.out))
        maps = (BlocksMap(blocks.map, self.block, m), chosen.map, near.map)
        shares = tuple(gate.reshape(-1, q.shape[-2]) for gate in gates)
        return Attended(self.out_proj(joined(out)), CombinedMap(maps, shares))

    def _means(self, x: Tensor) -> Tensor:
        """(..., m, d) -> (..., whole blocks, d)"""
        count = x.shape[-2] // self.block
        return x[..., : count * self.block, :].unflatten(-2, (count, self.block)).mean(-2)

    def _compressed(self, k: Tensor) -> Tensor:
        if self.mix is None or self.places is None:
            return self._means(k)
        count = k.shape[-2] // self.block
        placed = k[..., : count * self.block, :].unflatten(-2, (count, self.block)) + self.places
        found: Tensor = self.mix(placed).mean(-2)
        return found

    @torch.no_grad()
    def choice(self, blocks: AttentionMap, start: int, m: int) -> Selected:
        """The blocks that each group of heads attends, from the map over compressed blocks."""
        n, count = blocks.n, -(-m // self.block)
        parts = []
        for _, w in blocks.bands():
            w = w.unflatten(0, (-1, self.kv_heads, self.heads // self.kv_heads)).sum(2)  # (B, kv_heads, r, blocks)
            parts.append(nn.functional.pad(w, (0, count - w.shape[-1])))
        weight = torch.cat(parts, -2) if parts else blocks.none().new_zeros(1, self.kv_heads, n, count)
        own = (torch.arange(n, device=weight.device)[:, None] + start) // self.block
        place = torch.arange(count, device=weight.device)
        weight = weight.masked_fill(place > own, float("-inf"))
        for rank, forced in enumerate((place == 0, place == own - 1, place == own)):  # its own block ranks first
            weight = weight.masked_fill(forced & (place <= own), 1e9 * (rank + 1))
        best = weight.topk(min(self.top, count), -1)
        index = best.indices.masked_fill(best.values == float("-inf"), -1)
        index = index.repeat_interleave(self.heads // self.kv_heads, 1)
        return Selected(index.reshape(*blocks.lead, n, index.shape[-1]), self.block)
