"""Dot products a . x for each head, for several vectors a in one matrix product.

The vectors become the blocks of a matrix (H C, k H). The features pass through, so that their two gradients, from the
scores and from the values, are accumulated in one product.
"""

from typing import Any

import torch
from torch import Tensor

from regard.core.torch_private import apply_function


def read_heads(x: Tensor, *vectors: Tensor) -> "tuple[Tensor, list[Tensor]]":
    """x (..., N, H C) and each a (H, C)  ->  x, and for each a (..., N, H)."""
    heads = vectors[0].shape[0]
    stacked = torch.stack(vectors).to(x.dtype)
    x, read = apply_function(_Read, x, stacked, _blocks(stacked))
    return x, list(read.split(heads, -1))


def _blocks(vectors: Tensor) -> Tensor:
    """(k, H, C) -> (H C, k H): column (v, h) holds vector v of head h in the rows of head h."""
    k, heads, width = vectors.shape
    wide = torch.diag_embed(vectors.permute(2, 0, 1))  # (C, k, H, H)
    return wide.permute(2, 0, 1, 3).reshape(heads * width, k * heads)


class _Read(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, vectors: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor]:
        return x.view_as(x), x @ blocks

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        """Gradient of the vectors, not of their blocks, which are saved for it."""
        (x, vectors, blocks), (dx, dread) = ctx.saved_tensors, grads
        if dread is None:
            return dx, None, None
        flat, back = dread.reshape(-1, dread.shape[-1]), blocks.t()
        if dx is None:
            made = flat @ back
        else:
            made = torch.addmm(dx.reshape(-1, x.shape[-1]), flat.to(dx.dtype), back.to(dx.dtype))
        k, heads, width = vectors.shape
        by_column = (x.reshape(-1, x.shape[-1]).t() @ flat).view(heads, width, k, heads)
        return made.view(x.shape), torch.diagonal(by_column, dim1=0, dim2=3).permute(1, 2, 0), None
