"""Attention over gathered keys: every process has all keys and values, and attends them with its own queries."""

from typing import Any

import torch
from torch import Tensor

from ...core.attend import attend
from .layout import in_order, of_ranks, spans
from .restricted import restricted
from .ring import Ring


class GatherSequence(torch.autograd.Function):
    """All-gather of the sequence; backward: reduce-scatter of the gradients."""

    @staticmethod
    def forward(ctx: Any, ring: Ring, x: Tensor) -> Tensor:
        ctx.ring, ctx.dtype = ring, x.dtype
        return in_order(ring.where.gather(x), ring.layout)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        ring = ctx.ring
        wide = grad.to(torch.promote_types(grad.dtype, torch.float32))
        return None, ring.where.sum_of_mine(of_ranks(wide, ring.where.size, ring.layout)).to(ctx.dtype)


def run_gathered(ring: Ring, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    keys, values = (GatherSequence.apply(ring, x) for x in (k, v))
    outs = []
    for rows, row in spans(ring.where.rank, ring.where.size, q.shape[-2], ring.layout):
        n = rows.stop - rows.start
        over = restricted(ring.over, ring.n, ring.m, row, n, 0, ring.m)
        if over is None:  # no allowed pairs: zero gradients, so that every process joins the collectives
            outs.append(
                (q[..., rows, :1] * 0).expand(*q.shape[:-2], n, v.shape[-1]) + values.sum() * 0 + keys.sum() * 0
            )
        else:
            found = attend(q[..., rows, :], keys, values, ring.score, ring.align, over, backend=ring.backend)
            outs.append(found.out)
    return torch.cat(outs, -2)
