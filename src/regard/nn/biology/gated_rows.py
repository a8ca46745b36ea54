"""Base of the layers here: self-attention within each row of a table, with a pair bias and an output gate."""

import torch
from torch import Tensor, nn

from regard.core.arguments import checked, whole
from regard.core.attend import Attended, attend
from regard.core.modifiers import SharedPairBias
from regard.core.scores import ScaledDot
from regard.core.structures import Structure


class GatedRows(nn.Module):
    """Self-attention within each row (..., rows, n, dim): normalised inputs, heads of width d, a sigmoid gate."""

    @checked
    def __init__(self, dim: int, heads: int, *, d: int | None = None):
        super().__init__()
        self.d = whole(max(1, dim // heads) if d is None else d, type(self).__name__, "d")
        self.dim, self.heads = dim, heads
        self.norm = nn.LayerNorm(dim)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, heads * self.d, bias=False) for _ in range(3))
        self.gate_proj, self.out_proj = nn.Linear(dim, heads * self.d), nn.Linear(heads * self.d, dim)

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.ndim < 3 or x.shape[-1] != self.dim:
            given = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(
                f"{type(self).__name__} was built for width {self.dim}, but x is {given}: expected "
                f"(..., rows, length, {self.dim})."
            )

    def _attended(self, x: Tensor, bias: Tensor | None, over: Structure | None) -> Attended:
        """x (..., rows, n, dim) normed, bias (..., heads, n, n) -> out like x, map (..., rows, heads, n, n)"""
        q, k, v = (
            proj(x).unflatten(-1, (self.heads, self.d)).transpose(-3, -2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        score = ScaledDot()
        if bias is not None:
            made = score | SharedPairBias(bias.reshape(-1, *bias.shape[-3:]), max(1, x.shape[-3]))
            attended = attend(q, k, v, made, over=over)
        else:
            attended = attend(q, k, v, score, over=over)
        gate = torch.sigmoid(self.gate_proj(x))
        out = self.out_proj(attended.out.transpose(-3, -2).flatten(-2) * gate)
        return Attended(out, attended.map)
