"""T5's relative bias: a learned bias for each bucket of distances; buckets widen with the distance."""

import math

import torch
from torch import Tensor, nn

from ..arguments import flag, whole
from ..errors import check_heads
from ..lowering.kernel_forms import DISTANCE_BIAS, ModifierForm
from ..lowering.score_kernels import Grads
from ..lowering.tiles import Tile
from ..structures import check_align, shift_of
from .modifier import Modifier, add_to_table, gathered_sum, spread


class T5Bias(Modifier):
    """A learned bias for each head and distance bucket: exact buckets for small distances, logarithmic ones beyond.

        s' = s + table_h[bucket(j - i)],   bucket(x) = x for x < b / 2, else b / 2 (1 + log(2 x / b) / log(2 reach / b))

    Also known as: T5 bias, T5 relative attention bias, bucketed relative position bias.
    table (H, buckets); b = buckets, or half of them for each side if bidirectional. Raffel et al. 2020.
    Distances of `reach` or more share the last bucket.
    """

    kept = ("table", "both_sides", "reach", "align")
    closed = True
    shifts = True

    def __init__(
        self, heads: int, buckets: int = 32, reach: int = 128, both_sides: bool = True, align: str | None = None
    ):
        super().__init__()
        check_align(align, "T5Bias")
        heads, buckets = whole(heads, "T5Bias", "heads"), whole(buckets, "T5Bias", "buckets", 2)
        self.reach, self.both_sides, self.align = whole(reach, "T5Bias", "reach", 1), both_sides, align
        flag(both_sides, "T5Bias", "both_sides")
        if both_sides and buckets % 2:
            raise ValueError(f"T5Bias(buckets={buckets}): each side has half of them, so expected an even number.")
        if self.reach <= buckets // (4 if both_sides else 2):
            raise ValueError(
                f"T5Bias(buckets={buckets}, reach={reach}): buckets of one distance alone reach farther; expected "
                f"reach above {buckets // (4 if both_sides else 2)}."
            )
        self.table: Tensor = nn.Parameter(torch.zeros(heads, buckets))

    def check(self, heads: int) -> None:
        check_heads(self, self.table.shape[0], heads)

    def kernel_form(self) -> ModifierForm:
        """Distances of `reach` or more share a bucket: a table of the others is all of it."""
        return ModifierForm(DISTANCE_BIAS, align=self.align, reach=self.reach)

    def kernel_tensor(self) -> Tensor:
        """(H or 1, 2 reach + 1) fp32: what each distance reads."""
        table = self.table.float() if self.table.dtype in (torch.float16, torch.bfloat16) else self.table
        return table[:, self._bucket_of(torch.arange(-self.reach, self.reach + 1, device=table.device))]

    def _bucket(self, tile: Tile) -> Tensor:
        """(1, r, c): the bucket of each pair."""
        return self._bucket_of(tile.key - tile.query - shift_of(self.align, tile.n, tile.m, "T5Bias"))

    def _bucket_of(self, away: Tensor) -> Tensor:
        """The bucket of distances."""
        count, first = self.table.shape[1], torch.zeros_like(away)
        if self.both_sides:
            count //= 2
            first = (away > 0).long() * count
            away = away.abs()
        else:
            away = (-away).clamp_min(0)
        exact = count // 2
        widening = (away.clamp_min(1).float() / exact).log() / math.log(self.reach / exact) * (count - exact)
        return first + torch.where(away < exact, away, (exact + widening.long()).clamp_max(count - 1))

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        heads = tile.head if self.table.shape[0] > 1 else torch.zeros_like(tile.head)
        return s + spread(self.table.to(s.dtype)[heads, self._bucket(tile)], s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        add_to_table(grads.of(self.table), tile, self._bucket(tile), gathered_sum(ds))
        return ds
