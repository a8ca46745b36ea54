"""Fused attention, and torch's own modules."""

import torch
from torch import nn
from torch.nn import functional as F

from .spelling import Given, Spellings, causal_weights, softmax_weights

KERNELS = Spellings()
sdpa = F.scaled_dot_product_attention
LOWEST = torch.finfo(torch.float32).min

KERNELS.add(
    "exact",
    softmax_weights,
    {
        "sdpa": lambda g: sdpa(g.q, g.k, g.v),
        "sdpa by keyword": lambda g: sdpa(query=g.q, key=g.k, value=g.v),
        "sdpa with a scale": lambda g: sdpa(g.q, g.k, g.v, scale=0.5),
        "sdpa without a batch": lambda g: torch.stack([sdpa(*x) for x in zip(g.q, g.k, g.v, strict=True)]),
        "sdpa of five axes": lambda g: sdpa(g.q[None], g.k[None], g.v[None]),
        "the aten operator of sdpa": lambda g: torch.ops.aten.scaled_dot_product_attention(g.q, g.k, g.v),
        "the math kernel": lambda g: torch.ops.aten._scaled_dot_product_attention_math(g.q, g.k, g.v)[0],
    },
)

KERNELS.add(
    "exact",
    causal_weights,
    {
        "sdpa, is_causal": lambda g: sdpa(g.q_all, g.k, g.v, is_causal=True),
        "sdpa, a boolean mask": lambda g: sdpa(g.q_all, g.k, g.v, ~g.causal),
        "sdpa, a mask of minus infinity": lambda g: sdpa(
            g.q_all, g.k, g.v, torch.zeros(8, 8).masked_fill(g.causal, float("-inf"))
        ),
        "sdpa, a mask of the lowest number": lambda g: sdpa(
            g.q_all, g.k, g.v, torch.zeros(8, 8).masked_fill(g.causal, LOWEST)
        ),
    },
)


@KERNELS("exact", lambda g: torch.full((2, 3, 6, 8), 1 / 8))
def sdpa_with_rows_closed_by_finite_numbers(g: Given) -> torch.Tensor:
    return sdpa(g.q, g.k, g.v, torch.full((6, 8), LOWEST))


@KERNELS("exact", lambda g: F.softmax(g.q @ g.k[:, :1].mT * 0.5, -1))
def grouped_queries(g: Given) -> torch.Tensor:
    return sdpa(g.q, g.k[:, :1], g.v[:, :1], enable_gqa=True)


@KERNELS("exact", lambda g: F.softmax(g.s + g.model.table[:6, :1], -1))
def sdpa_with_a_bias_that_learns(g: Given) -> torch.Tensor:
    return sdpa(g.q, g.k, g.v, g.model.table[:6, :1].expand(6, 8))


@KERNELS("exact", softmax_weights)
def flex_attention(g: Given) -> torch.Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(g.q, g.k, g.v[..., :4])


@KERNELS("missed", softmax_weights)
def sdpa_under_vmap(g: Given) -> torch.Tensor:
    return torch.vmap(sdpa)(g.q, g.k, g.v)


@KERNELS("missed", softmax_weights)
def sdpa_in_an_autograd_function(g: Given) -> torch.Tensor:
    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            return sdpa(q, k, v)

    return Fused.apply(g.q, g.k, g.v)


def _multihead(g: Given) -> torch.Tensor:
    layer = g.model.extra["layer"]
    w, b = layer.in_proj_weight, layer.in_proj_bias
    q, k = ((g.x @ w[i : i + 12].T + b[i : i + 12]).unflatten(-1, (3, 4)).transpose(1, 2) for i in (0, 12))
    return F.softmax(q @ k.mT * 0.5, -1)


MULTIHEAD = {"layer": lambda: nn.MultiheadAttention(12, 3, batch_first=True)}
KERNELS.add(
    "exact",
    _multihead,
    {
        "nn.MultiheadAttention": lambda g: g.model.extra["layer"](g.x, g.x, g.x)[0],
        "nn.MultiheadAttention without weights": lambda g: g.model.extra["layer"](g.x, g.x, g.x, need_weights=False)[0],
    },
    modules=MULTIHEAD,
)
KERNELS.add(
    "exact",
    _multihead,
    {"nn.MultiheadAttention with autograd": lambda g: g.model.extra["layer"](g.x, g.x, g.x)[0]},
    modules=MULTIHEAD,
    grad=True,
)
