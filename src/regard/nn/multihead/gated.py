"""Gated attention: each head's output is multiplied by a gate computed from the query token."""

from typing import Any

import torch
from torch import Tensor, nn

from ..attention import Attention


class GatedAttention(Attention):
    """Attention with a sigmoid gate on each head's output, computed from the query token.

        y = W_o ([head_1; ...; head_h] * sigmoid(W_g x))

    query (..., n, dim)  ->  out (..., n, out_dim) and the map before the gate; all arguments of `Attention`, and

    gate    "each": a gate for every number of a head's output; "head": one for each head

    Also known as: output gate, gated attention (Qwen3-Next).
    Qiu et al. 2025. A closed gate gives 0, so heads need no attention sink on the first token.
    """

    def __init__(self, dim: int, heads: int, *, gate: str = "each", **options: Any):
        super().__init__(dim, heads, **options)
        if gate not in ("each", "head"):
            raise ValueError(f'GatedAttention(gate={gate!r}): expected "each" or "head".')
        width = heads * self.d_v if gate == "each" else heads
        made: dict[str, Any] = {"dtype": self.q_proj.weight.dtype, "device": self.q_proj.weight.device}
        self.gate_proj = nn.Linear(dim, width, **made)

    def join_heads(self, out: Tensor, query: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate_proj(query)).unflatten(-1, (self.heads, -1)).transpose(-3, -2)
        return super().join_heads(out * gate, query)
