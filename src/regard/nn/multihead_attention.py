"""torch.nn.MultiheadAttention with any score, any alignment, over any structure."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.alignments import Alignment
from ..core.attend import attend
from ..core.errors import values_are_checked
from ..core.lowering.tiles import Tile
from ..core.modifiers import PairBias
from ..core.scores import Score
from ..core.structures import Causal, Mask, Structure
from .build import build_alignment, build_score
from .sdpa_calls import joined, split_bias


class MultiheadAttention(nn.MultiheadAttention):
    """Drop-in replacement of torch.nn.MultiheadAttention: same arguments, parameter names and results.

        y = W_o [head_1; ...; head_h] + b_o,   head_c = attend(W_q^c x, W_k^c z, W_v^c z)

    query (n, B, embed_dim), key (m, B, kdim), value (m, B, vdim), or (B, ..., ...) with batch_first, or without B
    ->  out like the query, and weights (B, n, m), (B, H, n, m) with average_attn_weights=False, or None

    score, align, over, backend   as in `Attention`; over joins the masks of the call

    With the defaults, numbers and gradients are torch's, with three differences: a row without a key gives zeros and
    not NaN; weights are those before dropout; is_causal=True needs no attn_mask beside it. torch's fast paths, which
    would compute softmax, are disabled.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        score: "str | Score" = "scaled_dot",
        align: "str | Alignment" = "softmax",
        over: Structure | None = None,
        backend: str = "auto",
    ):
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        self.attend_by(score, align, over, backend)

    def attend_by(
        self,
        score: "str | Score" = "scaled_dot",
        align: "str | Alignment" = "softmax",
        over: Structure | None = None,
        backend: str = "auto",
    ) -> None:
        """Sets the score, the alignment, the structure and the backend; the weights stay."""
        width, heads, weight = self.head_dim, self.num_heads, self.out_proj.weight
        made = build_score(score, width, width, heads) if isinstance(score, str) else score
        self.score = made.to(device=weight.device, dtype=weight.dtype)
        aligned = build_alignment(align, width, width, heads) if isinstance(align, str) else align
        self.align = aligned.to(device=weight.device, dtype=weight.dtype)
        self.over, self.backend = over, backend
        self._qkv_same_embed_dim = False  # so that TransformerEncoderLayer's fast path skips this module

    def _reset_parameters(self) -> None:
        weights = [self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        for weight in weights:
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                nn.init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As in torch: True = masked out, and floating-point masks are added to the scores."""
        self._check_inputs(query, key, value)
        batched = query.dim() == 3
        own = key is query and value is query  # self-attention: one product for all three
        if not batched:
            query, key, value = (x[None] for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = self._project(query, key, value, own)
        n, m = q.shape[-2], k.shape[-2]
        over, bias = self._masks(key_padding_mask, attn_mask, is_causal, q.shape[0], n, m)
        k, v, over, bias = self._more_keys(k, v, over, bias, q.shape[0], n)
        score = self.score
        for each in bias:
            score = score | PairBias(each)
        attended = attend(
            q,
            k,
            v,
            score,
            self.align,
            joined(over),
            dropout=self.dropout if self.training else 0.0,
            sample=self.training,
            backend=self.backend,
        )
        out = self.out_proj(attended.out.transpose(-3, -2).flatten(-2))
        weights = None
        if need_weights:
            grad = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad)
            weights = attended.map.weights(grad=grad)
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights[0]
        if not batched:
            return out[0], weights
        return out if self.batch_first else out.transpose(0, 1), weights

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        if any(x.is_nested for x in (query, key, value)):
            raise ValueError(
                "MultiheadAttention got nested tensors. torch.nn.TransformerEncoder makes them of padded ones: build "
                "it with enable_nested_tensor=False, or set encoder.use_nested_tensor = False."
            )
        dims = {x.dim() for x in (query, key, value)}
        if dims not in ({2}, {3}):
            shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
            order = "(batch, length, width)" if self.batch_first else "(length, batch, width)"
            raise ValueError(f"query, key, value are {shapes}: expected {order} or (length, width) for all three.")
        for name, x, width, argument in (
            ("query", query, self.embed_dim, "embed_dim"),
            ("key", key, self.kdim, "kdim"),
            ("value", value, self.vdim, "vdim"),
        ):
            if x.shape[-1] != width:
                raise ValueError(
                    f"{name} has width {x.shape[-1]}, but this layer was built with {argument}={width}: pass features "
                    "of that width."
                )

    def _project(self, query: Tensor, key: Tensor, value: Tensor, own: bool) -> tuple[Tensor, ...]:
        """(B, H, n, d), (B, H, m, d), (B, H, m, d)."""
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        if self.in_proj_weight is None:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif own:
            found = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            return tuple(self._split(x) for x in found)
        else:
            weights = self.in_proj_weight.chunk(3)
        given = zip((query, key, value), weights, biases, strict=True)
        return tuple(self._split(F.linear(x, weight, bias)) for x, weight, bias in given)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(-3, -2)

    def _masks(
        self,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
        batch: int,
        n: int,
        m: int,
    ) -> tuple[list[Structure], list[Tensor]]:
        """Which pairs may attend, and the additive bias, each (B or 1, H or 1, n or 1, m)."""
        parts: list[Structure] = [] if self.over is None else [self.over]
        bias: list[Tensor] = []
        masks = []
        if key_padding_mask is not None:
            if tuple(key_padding_mask.shape) != (batch, m):
                raise ValueError(
                    f"key_padding_mask is {tuple(key_padding_mask.shape)}, expected (batch, m) = {batch, m}."
                )
            masks.append(key_padding_mask[:, None, None])
        if is_causal:
            if attn_mask is not None:
                _check_hint(attn_mask, n, m)
            parts.append(Causal("start"))
        elif attn_mask is not None:
            wide = (batch * self.num_heads, n, m)
            if tuple(attn_mask.shape) not in ((n, m), wide):
                raise ValueError(
                    f"attn_mask is {tuple(attn_mask.shape)}, expected (n, m) = {n, m} or (batch * heads, n, m) = "
                    f"{wide}."
                )
            masks.append(attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (batch, self.num_heads)))
        for mask in masks:
            if mask.dtype == torch.bool:
                parts.append(Mask(~mask))
            elif mask.is_floating_point():
                closed, rest = split_bias(mask, self.align)
                parts += closed
                bias.append(rest)
            else:
                raise TypeError(f"A mask is {mask.dtype}, expected bool (True = masked out) or a floating-point type.")
        return parts, bias

    def _more_keys(
        self, k: Tensor, v: Tensor, over: list[Structure], bias: list[Tensor], batch: int, n: int
    ) -> tuple[Tensor, Tensor, list[Structure], list[Tensor]]:
        """The learned key and value of add_bias_kv and the zeros of add_zero_attn, which every query may see."""
        added = []
        if self.bias_k is not None and self.bias_v is not None:
            added.append(tuple(self._split(x).expand(batch, -1, -1, -1) for x in (self.bias_k, self.bias_v)))
        if self.add_zero_attn:
            added.append((torch.zeros_like(k[..., :1, :]), torch.zeros_like(v[..., :1, :])))
        if not added:
            return k, v, over, bias
        closed = joined(over)
        if closed is not None:
            whole = closed.fit((batch,), self.num_heads, n, k.shape[-2])
            keep = whole.allowed(Tile.whole(batch, self.num_heads, n, k.shape[-2], k.device))
            over = []
            if keep is not None:  # (B H or 1, n or 1, m)
                wide = keep.expand(batch * self.num_heads, n, k.shape[-2]).unflatten(0, (batch, self.num_heads))
                over = [Mask(F.pad(wide, (0, len(added)), value=True))]
        bias = [F.pad(x.expand(*x.shape[:-1], k.shape[-2]), (0, len(added))) for x in bias]
        for more_k, more_v in added:
            k, v = torch.cat([k, more_k], -2), torch.cat([v, more_v], -2)
        return k, v, over, bias


def _check_hint(mask: Tensor, n: int, m: int) -> None:
    """is_causal with an attn_mask is a hint that the mask is causal; verified where values are checked."""
    if not values_are_checked(mask):
        return
    closed = mask if mask.dtype == torch.bool else mask < torch.finfo(mask.dtype).min / 2
    causal = torch.ones(n, m, dtype=torch.bool, device=mask.device).triu(1)
    added = mask.dtype != torch.bool and bool(mask.masked_fill(closed, 0.0).any())
    if added or closed.shape[-2:] != causal.shape or not bool((closed == causal).all()):
        raise ValueError(
            "is_causal=True claims that attn_mask is the causal mask, but it is not: leave is_causal out, or "
            "leave attn_mask out."
        )
