"""DeepSeek's sparse attention: a small indexer selects single keys and is trained to match the attention weights."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.alignments import Softmax
from regard.core.arguments import checked, whole
from regard.core.attend import Attended, attend
from regard.core.errors import Refused
from regard.core.lowering import blockwise
from regard.core.lowering.blocks import dense_block
from regard.core.maps.attention_map import AttentionMap
from regard.core.maps.lazy import LazyMap
from regard.core.scores import Rotary
from regard.core.structures import Causal, Selected, Structure

from ..kv_cache import Cache
from .projections import check_divides, check_width, joined, key_heads, split

BLOCK = 1 << 20  # pairs of a block of rows, over all attention heads: fits in a CPU cache


class LightningIndexer(nn.Module):
    """A cheap score of every earlier key, shared by all heads; the top keys are attended.

        I_ij = sum_h w_ih ReLU(q_ih . k_j),   w_i = W_w x_i / sqrt(heads d)

    x (..., n, dim)  ->  scores (..., n, m), or the best keys of each query as a structure

    Also known as: lightning indexer, DeepSeek indexer, DSA indexer.
    DeepSeek-AI 2025 (V3.2). One key a token serves all its heads. `divergence` is its only training signal: the
    selection has no gradient.
    """

    @checked
    def __init__(self, dim: int, heads: int = 4, *, d: int = 32):
        super().__init__()
        self.dim, self.heads, self.d = dim, heads, whole(d, "LightningIndexer", "d")
        self.q_proj, self.k_proj = nn.Linear(dim, heads * d, bias=False), nn.Linear(dim, d, bias=False)
        self.weight_proj = nn.Linear(dim, heads, bias=False)

    def keys(self, x: Tensor) -> Tensor:
        """(..., m, d): cached for decoding."""
        found: Tensor = self.k_proj(x)
        return found

    def forward(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """All scores, (..., n, m): the definition. keys are those of x unless given."""
        q, w = self._queries(x)
        k = self.keys(x) if keys is None else keys
        return (torch.relu(q @ k.unsqueeze(-3).mT) * w.mT[..., None]).sum(-3)

    def _queries(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """q (..., heads, n, d), w (..., n, heads)"""
        check_width("LightningIndexer", x, self.dim)
        return split(self.q_proj(x), self.heads), self.weight_proj(x) * (self.heads * self.d) ** -0.5

    @torch.no_grad()
    def select(self, x: Tensor, top: int, keys: Tensor | None = None) -> Selected:
        """The `top` best of the keys up to each query, the last query at the last key; in blocks of rows."""
        top = whole(top, "LightningIndexer.select", "top")
        q, w = self._queries(x.detach())
        k = (self.keys(x) if keys is None else keys).detach()
        n, m = x.shape[-2], k.shape[-2]
        parts, step = [], max(1, BLOCK // max(1, m * self.heads))
        place = torch.arange(m, device=x.device)
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            s = (torch.relu(q[..., rows, :] @ k.unsqueeze(-3).mT) * w[..., rows, :].mT[..., None]).sum(-3)
            last = torch.arange(rows.start, rows.stop, device=x.device)[:, None] + m - n
            parts.append(_best(s.masked_fill(place > last, float("-inf")), min(top, m)))
        index = torch.cat(parts, -2) if parts else torch.zeros(*x.shape[:-2], 0, 1, dtype=torch.long, device=x.device)
        return Selected(index.unsqueeze(-3), 1)

    def divergence(self, x: Tensor, attention: AttentionMap, keys: Tensor | None = None) -> Tensor:
        """The indexer's loss: KL(p_i || softmax of I_i), averaged over the rows, p the mean map of the heads.

        attention is any map of attention over the same tokens (..., heads, n, m): that of all earlier keys while the
        indexer warms up, that of the chosen ones afterwards; rows are compared over the keys that it allows. Its
        weights are a target without a gradient. Forward and backward in O(n) memory: no n x m tensor is made.
        """
        q, w = self._queries(x)
        k = self.keys(x) if keys is None else keys
        if (attention.n, attention.m) != (x.shape[-2], k.shape[-2]) or attention.lead[:-1] != tuple(x.shape[:-2]):
            raise ValueError(
                f"LightningIndexer.divergence: x {tuple(x.shape)} and keys {tuple(k.shape)} belong to a map "
                f"{(*x.shape[:-2], 'heads', x.shape[-2], k.shape[-2])}, but this one is {attention.shape}."
            )
        if attention.signed or attention.features is not None:
            raise Refused("LightningIndexer.divergence: a signed or feature-wise map is no distribution over keys.")
        found: Tensor = _Divergence.apply(attention, q.flatten(0, -4), k.flatten(0, -3), w.flatten(0, -3))
        return found


def _best(s: Tensor, top: int) -> Tensor:
    """Indices of the `top` largest of each row, ascending, -1 where there are fewer; ties go to the first.

    ReLU leaves many ties at 0: which of them are selected must not depend on the number of columns.
    """
    least = s.topk(top, -1).values[..., -1:]
    above, tied = s > least, (s == least) & (s > float("-inf"))
    chosen = above | (tied & (tied.cumsum(-1) <= top - above.sum(-1, keepdim=True)))
    slot = (chosen.cumsum(-1) - 1).masked_fill(~chosen, top)
    place = torch.arange(s.shape[-1], device=s.device).expand(s.shape)
    return place.new_full((*s.shape[:-1], top + 1), -1).scatter_(-1, slot, place)[..., :top]


class _Divergence(torch.autograd.Function):
    """The forward computes the gradients with the value, block by block: dI = (softmax(I) - p) / rows.

    With g_ij = dI_ij where q_ih . k_j > 0: dq_ih = w_ih g k, dw_ih = q_ih . (g k), dk = sum_h g^T (w_h q_h).
    """

    @staticmethod
    def forward(ctx: Any, amap: AttentionMap, q: Tensor, k: Tensor, w: Tensor) -> Tensor:
        batch, heads, n = q.shape[:3]
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        q, k, w = (y.detach().to(wide) for y in (q, k, w))
        dq, dk, dw = (torch.zeros_like(y) for y in (q, k, w))
        total, count = q.new_zeros(()), q.new_zeros(())
        step = max(1, BLOCK // max(1, (amap.slab.stop - amap.slab.start) * amap.m))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            cols = slice(*amap.reach(rows))
            p, closed = _target(amap, rows, cols, batch)
            keys = k[:, cols]
            pairs = [q[:, h, rows] @ keys.mT for h in range(heads)]
            s = w[:, rows, :1] * torch.relu(pairs[0])
            for h in range(1, heads):
                s.addcmul_(w[:, rows, h, None], torch.relu(pairs[h]))
            s = s if closed is None else s.masked_fill_(closed, float("-inf"))
            ds = torch.log_softmax(s, -1)
            ds = ds if closed is None else ds.masked_fill_(closed, 0.0)
            there = p.sum(-1, keepdim=True) > 0
            total += (torch.xlogy(p, p) - p * ds).sum()
            count += there.sum()
            if not any(ctx.needs_input_grad):
                continue
            ds = ds.exp_().sub_(p).mul_(there)
            ds = ds if closed is None else ds.masked_fill_(closed, 0.0)
            for h, pair in enumerate(pairs):
                g = ds.masked_fill(pair <= 0, 0.0)
                read, share = g @ keys, w[:, rows, h, None]
                dq[:, h, rows] = share * read
                dw[:, rows, h] = (q[:, h, rows] * read).sum(-1)
                dk[:, cols] += g.mT @ (share * q[:, h, rows])
        count = count.clamp_min(1)
        ctx.save_for_backward(dq / count, dk / count, dw / count)
        return total / count

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Any, ...]:
        return None, *(dout.to(y.dtype) * y for y in ctx.saved_tensors)


def _target(amap: AttentionMap, rows: slice, cols: slice, batch: int) -> tuple[Tensor, Tensor | None]:
    """The mean map of all heads (B, r, c), non-empty rows summing to one, and the pairs masked for every head."""
    live = amap.live if isinstance(amap, LazyMap) else None
    if isinstance(amap, LazyMap) and live is not None and type(live.align) is Softmax and live.score.sink is None:
        problem = amap.problem  # whole rows: no row state needed, one softmax in one pass
        block = dense_block(problem, amap.slab, rows, cols)
        keep = problem.structure.allowed(block.tile)
        s = blockwise.scores(problem, block, mask=False)
        s = s if keep is None else s.masked_fill_(~keep, float("-inf"))
        weights = torch.softmax(s, -1)
        if keep is not None:
            weights = weights.masked_fill_(~keep.any(-1, keepdim=True), 0.0)
    else:
        weights, keep = amap.band(rows, cols), amap.allowed(rows, cols) > 0
    p = weights.unflatten(0, (batch, -1)).sum(1)
    p = p.div_(p.sum(-1, keepdim=True).clamp_min_(torch.finfo(p.dtype).tiny))
    if keep is None:
        return p, None
    if keep.shape[0] == 1:
        return p, ~keep.expand(batch, *p.shape[1:])
    return p, ~keep.expand(weights.shape).unflatten(0, (batch, -1)).any(1)


class IndexedAttention(nn.Module):
    """Causal attention over the top keys of an indexer.

        y = W_o attend(q, k, v; the top keys by I_ij = sum_h w_ih ReLU(q^I_ih . k^I_j))

    x (..., n, dim)  ->  out (..., n, dim) and the map (..., heads, n, m), exact on the chosen pairs

    top            keys a query (2,048 in the paper)
    index_heads, index_d   of the `LightningIndexer`, layer.indexer
    cache          a `Cache`, for decoding; it holds the indexer's keys too

    Also known as: DeepSeek sparse attention, DSA.
    DeepSeek-AI 2025 (V3.2), over plain heads. The indexer gets no gradient from the output; add
    layer.indexer.divergence(x.detach(), map) to the loss. With as many keys as there are it is causal attention.
    """

    @checked
    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        top: int = 2048,
        index_heads: int = 4,
        index_d: int = 32,
        rotary: bool = True,
    ):
        super().__init__()
        name = type(self).__name__
        self.width = check_divides(name, dim, heads)
        self.dim, self.heads, self.kv_heads = dim, heads, key_heads(name, heads, kv_heads)
        self.top = whole(top, name, "top")
        self.indexer = LightningIndexer(dim, index_heads, d=index_d)
        self.q_proj, self.out_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(dim, self.kv_heads * self.width, bias=False) for _ in range(2))
        self.rotary = Rotary(self.width) if rotary else None

    def forward(self, x: Tensor, over: Structure | None = None, *, cache: Cache | None = None) -> Attended:
        """over: joined to the causal structure and the chosen keys, such as Padding."""
        check_width(type(self).__name__, x, self.dim)
        start = 0 if cache is None else cache.position
        q, k = split(self.q_proj(x), self.heads), split(self.k_proj(x), self.kv_heads)
        v, index_keys = split(self.v_proj(x), self.kv_heads), self.indexer.keys(x)
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is not None:  # the indexer's keys stand behind the values of every head
            beside = index_keys.unsqueeze(-3).expand(*v.shape[:-1], -1)
            k, v = cache.append(k, torch.cat([v, beside], -1))
            v, index_keys = v[..., : self.width], v[..., 0, :, self.width :]
        chosen: Structure = self.indexer.select(x, self.top, index_keys) & Causal(align="end")
        attended = attend(q, k, v, over=chosen if over is None else chosen & over)
        return Attended(self.out_proj(joined(attended.out)), attended.map)
