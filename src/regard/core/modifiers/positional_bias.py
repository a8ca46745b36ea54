"""Positional biases: ALiBi, and a learned bias for each distance."""

import torch
from torch import Tensor, nn

from ..arguments import flag, shown, sizes, whole
from ..errors import check_heads
from ..lowering.kernel_forms import ALIBI, DISTANCE_BIAS, ModifierForm
from ..lowering.score_kernels import Grads
from ..lowering.tiles import Tile
from ..structures import check_align, shift_of
from .modifier import Modifier, add_by_head, add_to_table, by_head, gathered_sum, spread


class ALiBi(Modifier):
    """A linear distance penalty with a slope for each head.

        s' = s - slope_h |i - j|,   slopes 2^(-8 h / H) unless given

    Also known as: attention with linear biases.
    Press et al. 2022.
    """

    kept = ("slopes", "align")
    closed = True
    shifts = True

    def __init__(
        self, heads: int | None = None, slopes: Tensor | None = None, learned: bool = False, align: str | None = None
    ):
        super().__init__()
        check_align(align, "ALiBi")
        if (heads is None) == (slopes is None):
            raise ValueError("ALiBi needs heads= (the paper's slopes 2^(-8 h / heads)) or slopes= (one a head).")
        (heads,) = sizes("ALiBi", heads=heads)
        flag(learned, "ALiBi", "learned")
        if slopes is None:
            assert heads is not None
            slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        elif not isinstance(slopes, Tensor) or not slopes.is_floating_point() or slopes.ndim != 1 or not len(slopes):
            raise ValueError(f"ALiBi(slopes={shown(slopes)}): expected a floating-point tensor (heads,).")
        self.slopes: Tensor
        if learned:
            self.slopes = nn.Parameter(slopes)
        else:
            self.register_buffer("slopes", slopes)
        self.align = align

    def check(self, heads: int) -> None:
        check_heads(self, self.slopes.shape[0], heads)

    def kernel_form(self) -> ModifierForm:
        return ModifierForm(ALIBI, align=self.align)

    def kernel_tensor(self) -> Tensor:
        return self.slopes

    def _distance(self, tile: Tile) -> Tensor:
        shift = shift_of(self.align, tile.n, tile.m, "ALiBi")
        return (tile.query + shift - tile.key).abs()

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s - spread(by_head(self.slopes.to(s.dtype), tile) * self._distance(tile), s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        add_by_head(grads.of(self.slopes), tile, -(gathered_sum(ds) * self._distance(tile)).sum((1, 2)))
        return ds


class RelativeBias(Modifier):
    """A learned number for each head and distance.

        s' = s + table_h[clip(j - i, -reach, reach)]

    Also known as: relative position bias, relative positional encoding.
    table (H, 2 reach + 1). Shaw et al. 2018. `T5Bias` has T5's buckets.
    """

    kept = ("table", "reach", "align")
    closed = True
    shifts = True

    def __init__(self, heads: int, reach: int, align: str | None = None):
        super().__init__()
        check_align(align, "RelativeBias")
        heads, reach = whole(heads, "RelativeBias", "heads"), whole(reach, "RelativeBias", "reach", 0)
        self.table: Tensor = nn.Parameter(torch.zeros(heads, 2 * reach + 1))
        self.reach, self.align = reach, align

    def check(self, heads: int) -> None:
        check_heads(self, self.table.shape[0], heads)

    def kernel_form(self) -> ModifierForm:
        return ModifierForm(DISTANCE_BIAS, align=self.align, reach=self.reach)

    def kernel_tensor(self) -> Tensor:
        return self.table

    def _slot(self, tile: Tile) -> Tensor:
        shift = shift_of(self.align, tile.n, tile.m, "RelativeBias")
        return (tile.key - tile.query - shift).clamp(-self.reach, self.reach) + self.reach  # (1, r, c)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        heads = tile.head if self.table.shape[0] > 1 else torch.zeros_like(tile.head)
        return s + spread(self.table.to(s.dtype)[heads, self._slot(tile)], s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        add_to_table(grads.of(self.table), tile, self._slot(tile), gathered_sum(ds))
        return ds
