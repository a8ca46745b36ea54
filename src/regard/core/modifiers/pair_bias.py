"""Bias tensors for pairs or edges, passed in by the caller, who receives their gradient."""

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from ..arguments import whole
from ..errors import values_are_checked
from ..lowering.kernel_forms import GIVEN_BIAS, ModifierForm
from ..lowering.score_kernels import Grads
from ..lowering.tiles import Tile
from .modifier import Modifier, gathered_sum, spread


class PairBias(Modifier):
    """An additive bias for every pair, such as a learned bias for each distance in a graph.

        s'_ij = s_ij + bias_ij

    Also known as: attention bias, additive mask.
    bias (..., H, n, m), up to four axes, each 1 or full: a broadcast batch is one axis. Ying et al. 2021.
    """

    kept: ClassVar[tuple[str, ...]] = ("bias",)
    closed = True
    shifts = True

    def __init__(self, bias: Tensor):
        super().__init__()
        if not isinstance(bias, Tensor) or not bias.is_floating_point() or not 2 <= bias.ndim <= 4:
            given = f"{bias.dtype} {tuple(bias.shape)}" if isinstance(bias, Tensor) else type(bias).__name__
            raise ValueError(f"PairBias(bias) is {given}, expected a floating-point tensor (batch, heads, n, m).")
        self.bias = bias.reshape((1,) * (4 - bias.ndim) + tuple(bias.shape))

    def kernel_form(self) -> ModifierForm:
        return ModifierForm(GIVEN_BIAS)

    def kernel_tensor(self) -> Tensor:
        return self.bias

    def _places(self, tile: Tile) -> tuple[Tensor, ...]:
        wanted = (tile.batch, tile.head, tile.query, tile.key)
        for size, count, name in zip(self.bias.shape[2:], (tile.n, tile.m), ("queries", "keys"), strict=True):
            if size not in (1, count):
                raise ValueError(f"PairBias(bias) has shape {tuple(self.bias.shape)}, but there are {count} {name}.")
        return tuple(x if size > 1 else torch.zeros_like(x) for x, size in zip(wanted, self.bias.shape, strict=True))

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s + spread(self.bias[self._places(tile)].to(s.dtype), s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        _accumulate(grads.of(self.bias), self._places(tile), gathered_sum(ds))
        return ds


class SharedPairBias(PairBias):
    """A pair bias shared by consecutive items of the batch: rows of one image, or of one sequence alignment.

        s'_ij = s_ij + bias_ij of item floor(b / share)

    bias (batch / share, heads, n, m), each axis 1 or full. Jumper et al. 2021 (AlphaFold): all rows of a pair
    representation, or of a sequence alignment, share one bias. With share=1 it is PairBias.
    """

    kept = ("bias", "share")

    def __init__(self, bias: Tensor, share: int):
        super().__init__(bias)
        self.share = whole(share, "SharedPairBias", "share")

    def kernel_form(self) -> ModifierForm:
        return ModifierForm(GIVEN_BIAS, share=self.share)

    def _places(self, tile: Tile) -> tuple[Tensor, ...]:
        return super()._places(replace(tile, batch=tile.batch // self.share))


class EdgeBias(Modifier):
    """An additive bias for each edge of a graph.

        s'_e = s_e + bias_e

    bias (E,), or (H, E) with a row for each head; E + nodes columns with self_loops=True, as for an edge's key.
    """

    kept = ("bias",)
    closed = True
    shifts = True

    def __init__(self, bias: Tensor):
        super().__init__()
        if not isinstance(bias, Tensor) or not bias.is_floating_point() or bias.ndim not in (1, 2):
            given = f"{bias.dtype} {tuple(bias.shape)}" if isinstance(bias, Tensor) else type(bias).__name__
            raise ValueError(f"EdgeBias(bias) is {given}, expected a floating-point tensor (heads, edges).")
        self.bias = bias if bias.ndim == 2 else bias[None]

    def _places(self, tile: Tile) -> tuple[Tensor, ...]:
        if tile.edge is None:
            raise ValueError(
                "EdgeBias needs edges: attend(..., over=Edges(...)). Pairs of a dense structure take PairBias(bias)."
            )
        if values_are_checked(tile.edge) and tile.edge.numel() and int(tile.edge.max()) >= self.bias.shape[1]:
            raise ValueError(
                f"EdgeBias(bias) has shape {tuple(self.bias.shape)}, but an edge has the id "
                f"{int(tile.edge.max())}: expected a column for each edge, and with self_loops=True E + "
                "nodes of them."
            )
        edge = tile.edge.where(tile.edge >= 0, tile.edge[..., :1]).clamp_min(0)
        return tile.head if self.bias.shape[0] > 1 else torch.zeros_like(tile.head), edge

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s + spread(self.bias[self._places(tile)].to(s.dtype), s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        _accumulate(grads.of(self.bias), self._places(tile), gathered_sum(ds))
        return ds


def _accumulate(total: Tensor, places: tuple[Tensor, ...], value: Tensor) -> None:
    """total[places] += value, where places may repeat; an accumulating index_put_ has a fixed order."""
    index = [x.expand(value.shape) for x in places]
    total.index_put_(tuple(index), value.to(total.dtype), accumulate=True)
