"""Monotonic attention in expectation (Raffel et al. 2017)."""

import torch
from torch import Tensor

from ..arguments import number
from ..lowering.tiles import Tile
from .alignment import Alignment


class Monotonic(Alignment, name="monotonic"):
    """Attention that only moves forward, in expectation over where it stops.

        p_tj = sigmoid(s_tj + noise),   q_tj = (1 - p_t,j-1) q_t,j-1 + w_t-1,j,   w_tj = p_tj q_tj,   w_0 = one-hot(0)

    Also known as: monotonic alignment, online monotonic attention.
    s (..., n, m) -> w (..., n, m), rows sum to at most one (the rest never stopped). Row t needs row t - 1, so it runs
    on the reference and its map is stored. Raffel et al. 2017; noise (standard deviation) is added by
    attend(sample=True) and pushes p towards 0 and 1. Not Luong's local monotonic attention: that is `Local`.
    """

    shift_invariant = False
    simplex = False
    stepwise = True
    samples = True

    def __init__(self, noise: float = 1.0, bias: float = 0.0):
        super().__init__()
        self.noise, self.bias = number(noise, "Monotonic", "noise"), number(bias, "Monotonic", "bias")

    def draw_noise(self, tile: Tile, seed: Tensor) -> Tensor:
        return tile.normal(seed)

    def forward(
        self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None, before: Tensor | None = None
    ) -> Tensor:
        """`before` (..., m) is where the step before the first row stood; one-hot at key 0 unless given."""
        p = torch.sigmoid(s + self.bias if noise is None else s + self.bias + self.noise * noise)
        p = p if keep is None else p.masked_fill(~keep, 0.0)
        if p.shape[-1] == 0 or p.shape[-2] == 0:
            return p
        if before is None:
            before = torch.zeros_like(p[..., 0, :])
            before[..., 0] = 1.0
        rows = []
        for t in range(s.shape[-2]):
            before = self._row(p[..., t, :], before)
            rows.append(before)
        return torch.stack(rows, -2)

    @staticmethod
    def _row(p: Tensor, before: Tensor) -> Tensor:
        """One row by its recurrence over keys; exact, where the closed form divides by products that vanish."""
        reach, out = torch.zeros_like(p[..., 0]), []
        for j in range(p.shape[-1]):
            reach = reach + before[..., j]
            out.append(p[..., j] * reach)
            reach = (1 - p[..., j]) * reach
        return torch.stack(out, -1)
