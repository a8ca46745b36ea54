"""Multi-head latent attention: keys and values come from one latent vector a token, the only thing cached."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked, whole
from regard.core.attend import Attended, attend
from regard.core.scores import Dot, Rotary
from regard.core.structures import Structure

from ..kv_cache import Cache
from .projections import check_width, joined, split


class LatentAttention(nn.Module):
    """Keys and values of all heads from one compressed vector a token, and positions from one small rotary key.

        c_j = norm(W_c x_j),   k_jh = [W_k^h c_j; rope(W_r x_j)],   v_jh = W_v^h c_j
        q_ih = [W_q^h x_i; rope(W_p^h x_i)],   w = align(q k^T / sqrt(d + d_rope))

    x (..., n, dim)  ->  out (..., n, dim) and the map (..., heads, n, m)

    latent, rope    width of c (512 in DeepSeek-V2) and of the rotated part (64); d, of the rest, is dim / heads
    absorbed        W_k moves to the queries and W_v behind the average, so that attention runs over one shared key
                    [c; rope] of width latent + rope and the value c: nothing larger is materialised
    cache           a `Cache`: it holds c and the rotated key, latent + rope numbers a token for all heads together

    Also known as: MLA, multi-head latent attention, DeepSeek attention.
    DeepSeek-AI 2024. Both forms give the same output: q . (W_k c) = (W_k^T q) . c.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        latent: int = 512,
        rope: int = 64,
        d: int | None = None,
        base: float = 10000.0,
        align: "str | Alignment" = "softmax",
    ):
        super().__init__()
        self.d = whole(max(1, dim // heads) if d is None else d, "LatentAttention", "d")
        self.dim, self.heads, self.latent, self.align = dim, heads, latent, align
        self.q_proj = nn.Linear(dim, heads * self.d, bias=False)
        self.q_rope = nn.Linear(dim, heads * rope, bias=False)
        self.compress = nn.Linear(dim, latent, bias=False)
        self.norm = nn.RMSNorm(latent, eps=1e-6)
        self.k_rope = nn.Linear(dim, rope, bias=False)
        self.expand_keys = nn.Parameter(torch.randn(heads, self.d, latent) * latent**-0.5)  # W_k
        self.expand_values = nn.Parameter(torch.randn(heads, self.d, latent) * latent**-0.5)  # W_v
        self.out_proj = nn.Linear(heads * self.d, dim, bias=False)
        self.rotary = Rotary(rope, base)

    def forward(
        self, x: Tensor, over: Structure | None = None, *, cache: Cache | None = None, absorbed: bool | None = None
    ) -> Attended:
        """absorbed: True with a cache, False without one, unless given."""
        check_width("LatentAttention", x, self.dim)
        start = 0 if cache is None else cache.position
        c = self.norm(self.compress(x)).unsqueeze(-3)  # (..., 1, n, latent)
        turned = self.rotary(self.k_rope(x).unsqueeze(-3), start)
        if cache is not None:
            if over is None:
                raise ValueError('cache= needs over=: over=Causal(align="end") lets the last query see every key.')
            turned, c = cache.append(turned, c)
        q, place = split(self.q_proj(x), self.heads), self.rotary(split(self.q_rope(x), self.heads), start)
        scale = (self.d + turned.shape[-1]) ** -0.5
        if absorbed if absorbed is not None else cache is not None:
            asked = torch.einsum("...hnd,hdl->...hnl", q, self.expand_keys.to(q.dtype))
            attended = attend(
                torch.cat([asked, place], -1) * scale, torch.cat([c, turned], -1), c, Dot(), self.align, over
            )
            out = torch.einsum("...hnl,hdl->...hnd", attended.out, self.expand_values.to(q.dtype))
        else:
            k, v = (
                torch.einsum("...nl,hdl->...hnd", c.squeeze(-3), w.to(c.dtype))
                for w in (self.expand_keys, self.expand_values)
            )
            keys = torch.cat([k, turned.expand(*k.shape[:-1], -1)], -1)
            attended = attend(torch.cat([q, place], -1) * scale, keys, v, Dot(), self.align, over)
            out = attended.out
        return Attended(self.out_proj(joined(out)), attended.map)
