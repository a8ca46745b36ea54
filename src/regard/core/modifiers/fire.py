"""FIRE: a positional bias from an MLP of the distance, normalised by the query's position."""

import torch
from torch import Tensor, nn

from ..arguments import whole
from ..errors import check_heads
from ..lowering.score_kernels import Grads
from ..lowering.tiles import Tile
from ..structures import check_align, shift_of
from .modifier import Modifier, add_by_head, gathered_sum, spread


class FIRE(Modifier):
    """A bias from an MLP of the log distance, normalised by the query's position.

        s' = s + f_h(log(1 + c |i - j|) / log(1 + c max(i, L))),   f a network with one hidden layer of ReLU

    Also known as: functional interpolation for relative positions.
    weight_in, bias_in (hidden,), weight_out (H, hidden), bias_out (H,); c, L > 0 are learned. Li et al. 2024. The
    input of f lies in [0, 1] for causal pairs of any length: no distance is out of range.
    """

    kept = ("weight_in", "bias_in", "weight_out", "bias_out", "raw", "align")
    closed = True
    shifts = True

    def __init__(self, heads: int, hidden: int = 32, start: float = 512.0, align: str | None = None):
        super().__init__()
        check_align(align, "FIRE")
        heads, hidden = whole(heads, "FIRE", "heads"), whole(hidden, "FIRE", "hidden")
        self.weight_in: Tensor = nn.Parameter(torch.empty(hidden).uniform_(-1, 1))
        self.bias_in: Tensor = nn.Parameter(torch.empty(hidden).uniform_(-1, 1))
        self.weight_out: Tensor = nn.Parameter(torch.empty(heads, hidden).uniform_(-1, 1) / hidden**0.5)
        self.bias_out: Tensor = nn.Parameter(torch.zeros(heads))
        self.raw: Tensor = nn.Parameter(torch.tensor([0.1, float(start)]).log())  # log c, log L
        self.align = align

    def check(self, heads: int) -> None:
        check_heads(self, self.bias_out.shape[0], heads)

    def _place(self, tile: Tile, raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Distance, reach and the network's input, (1, r, c)."""
        query = tile.query + shift_of(self.align, tile.n, tile.m, "FIRE")
        c, least = raw.exp()
        far, reach = (query - tile.key).abs().to(raw.dtype), torch.maximum(query.to(raw.dtype), least)
        return far, reach, torch.log1p(c * far) / torch.log1p(c * reach)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        _, _, place = self._place(tile, self.raw.to(s.dtype))
        hidden = torch.relu(place[0, ..., None] * self.weight_in.to(s.dtype) + self.bias_in.to(s.dtype))
        by_head = (hidden @ self.weight_out.to(s.dtype).mT + self.bias_out.to(s.dtype)).movedim(-1, 0)  # (H, r, c)
        head = tile.head.flatten()
        return s + spread(by_head[head if by_head.shape[0] > 1 else torch.zeros_like(head)], s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        pairs = gathered_sum(ds)  # (g, r, c)
        weight_in, bias_in, weight_out, raw = (
            x.to(ds.dtype) for x in (self.weight_in, self.bias_in, self.weight_out, self.raw)
        )
        far, reach, place = (x[0] for x in self._place(tile, raw))
        hidden = torch.relu(place[..., None] * weight_in + bias_in)  # (r, c, hidden)
        d_bias = torch.zeros(self.bias_out.shape[0], *pairs.shape[1:], dtype=ds.dtype, device=ds.device)  # (H, r, c)
        add_by_head(d_bias.flatten(1), tile, pairs.flatten(1))
        grads.of(self.bias_out).add_(d_bias.sum((1, 2)))
        grads.of(self.weight_out).add_(torch.einsum("hrc,rcu->hu", d_bias, hidden))
        d_hidden = torch.einsum("hrc,hu->rcu", d_bias, weight_out) * (hidden > 0)
        grads.of(self.bias_in).add_(d_hidden.sum((0, 1)))
        grads.of(self.weight_in).add_(torch.einsum("rcu,rc->u", d_hidden, place))
        d_place = d_hidden @ weight_in
        c, least = raw.exp()
        whole = torch.log1p(c * reach)
        d_reach = -place / whole / (1 + c * reach)  # of c * reach
        d_c = (d_place * (far / (1 + c * far) / whole + d_reach * reach)).sum()
        d_least = (d_place * d_reach * c * (reach == least)).sum()
        grads.of(self.raw).add_(torch.stack([d_c * c, d_least * least]))
        return ds
