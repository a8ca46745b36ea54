"""Kerple: distance biases from a kernel with learned parameters."""

import torch
from torch import Tensor, nn

from ..arguments import shown, whole
from ..errors import check_heads
from ..lowering.score_kernels import Grads
from ..lowering.tiles import Tile
from ..structures import check_align, shift_of
from .modifier import Modifier, add_by_head, by_head, gathered_sum, spread


class Kerple(Modifier):
    """A distance penalty by a kernel with two learned parameters for each head.

        kernel="log"     s' = s - scale_h log(1 + rate_h |i - j|)
        kernel="power"   s' = s - scale_h |i - j|^exponent_h,   0 < exponent < 2

    Also known as: kernelised relative positional embedding, logarithmic distance bias.
    scale, rate > 0 (H,). Chi et al. 2022. The power kernel with exponent 1 is ALiBi with slopes `scale`.
    """

    kept = ("raw", "kernel", "align")
    closed = True
    shifts = True

    def __init__(self, heads: int, kernel: str = "log", align: str | None = None):
        super().__init__()
        check_align(align, "Kerple")
        heads = whole(heads, "Kerple", "heads")
        if kernel not in ("log", "power"):
            raise ValueError(f'Kerple(kernel={shown(kernel)}): expected "log" or "power".')
        self.kernel, self.align = kernel, align
        self.raw: Tensor = nn.Parameter(torch.zeros(2, heads))  # constrained by softplus and sigmoid

    @property
    def scale(self) -> Tensor:
        """(H,), positive; initially log 2 = 0.69."""
        return torch.nn.functional.softplus(self.raw[0])

    @property
    def second(self) -> Tensor:
        """(H,): the rate of the logarithm, initially 0.69; the exponent of the power, initially 1."""
        return torch.nn.functional.softplus(self.raw[1]) if self.kernel == "log" else 2 * torch.sigmoid(self.raw[1])

    def check(self, heads: int) -> None:
        check_heads(self, self.raw.shape[1], heads)

    def _distance(self, tile: Tile, dtype: torch.dtype) -> Tensor:
        return (tile.query + shift_of(self.align, tile.n, tile.m, "Kerple") - tile.key).abs().to(dtype)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        far = self._distance(tile, s.dtype)
        scale, second = by_head(self.scale.to(s.dtype), tile), by_head(self.second.to(s.dtype), tile)
        if self.kernel == "log":
            return s - spread(scale * torch.log1p(second * far), s)
        return s - spread(scale * far.clamp_min(1e-30) ** second * (far > 0), s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        pairs, far = gathered_sum(ds), self._distance(tile, ds.dtype)
        scale, second = by_head(self.scale.to(ds.dtype), tile), by_head(self.second.to(ds.dtype), tile)
        if self.kernel == "log":
            penalty, slope = torch.log1p(second * far), scale * far / (1 + second * far)
            inner = torch.sigmoid(self.raw[1])
        else:
            penalty = far.clamp_min(1e-30) ** second * (far > 0)
            slope = scale * penalty * far.clamp_min(1e-30).log()
            inner = 2 * torch.sigmoid(self.raw[1]) * torch.sigmoid(-self.raw[1])
        found = torch.zeros(2, self.raw.shape[1], dtype=ds.dtype, device=ds.device)
        add_by_head(found[0], tile, -(pairs * penalty).sum((1, 2)))
        add_by_head(found[1], tile, -(pairs * slope).sum((1, 2)))
        grads.of(self.raw).add_(torch.stack([found[0] * torch.sigmoid(self.raw[0]), found[1] * inner]))
        return ds
