"""Padding and boolean masks."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import values_are_checked
from ..lowering.kernel_forms import KEY_MASK, PADDING, PAIR_MASK, StructureForm
from ..lowering.tiles import Tile
from .structure import Structure, kind_of


@dataclass(frozen=True, eq=False)
class Padding(Structure):
    """Only the first keys of an item are valid; the padding may hold anything, NaN included.

        j < lengths[b] for item b

    Also known as: padding mask, key padding mask.

    lengths (batch,) int, or a shape that broadcasts to all batch axes.
    """

    lengths: Tensor

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        lengths = self.lengths
        if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise TypeError(
                f"Padding(lengths={kind_of(lengths)}): expected an integer tensor with one length an item, "
                "shape (batch,). A bool key mask becomes Mask(keep=mask[:, None, None, :])."
            )
        try:
            lengths = lengths.expand(lead).reshape(-1)
        except RuntimeError:
            raise ValueError(
                f"Padding(lengths) has shape {tuple(self.lengths.shape)}, expected one length for each "
                f"item of the batch: {lead}."
            ) from None
        if values_are_checked(lengths) and lengths.numel():
            low, high = int(lengths.min()), int(lengths.max())
            if low < 0 or high > m:
                raise ValueError(
                    f"Padding(lengths) holds {low if low < 0 else high}, expected 0 to {m} (the number "
                    "of keys). Lengths count valid keys from the start."
                )
        return Padding(lengths)

    def kernel_form(self, n: int, m: int) -> StructureForm:
        return StructureForm(PADDING, lengths=self.lengths)

    def allowed(self, tile: Tile) -> Tensor | None:
        return tile.key < self.lengths[tile.batch]

    def span(self, heads: int, slab: slice, rows: slice, n: int, m: int) -> tuple[int, int]:
        if self.lengths.device.type != "cpu":
            return 0, m
        return 0, int(self.lengths[slab.start // heads : (slab.stop - 1) // heads + 1].max())

    def keys(self, m: int) -> Tensor | None:
        return (torch.arange(m, device=self.lengths.device) < self.lengths[:, None])[:, None]

    def lengths_of_keys(self, m: int) -> Tensor | None:
        return self.lengths


@dataclass(frozen=True, eq=False)
class Mask(Structure):
    """A boolean mask of allowed pairs.

        keep[i, j]

    Also known as: attention mask, attn_mask, boolean mask.

    keep (..., H, n, m) bool, or broadcastable to it; True = may be attended. A key mask is keep[:, None, None, :].
    """

    keep: Tensor

    def fit(self, lead: tuple[int, ...], heads: int, n: int, m: int) -> Structure:
        keep = self.keep
        if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
            raise TypeError(
                f"Mask(keep={kind_of(keep)}): expected a bool tensor, True = may be attended. "
                "An additive mask of 0 and -inf becomes Mask(keep=mask == 0); a mask whose True means *drop* "
                "(nn.MultiheadAttention) becomes Mask(keep=~mask)."
            )
        whole = (*lead, heads, n, m)
        sizes = (1,) * (len(whole) - keep.ndim) + tuple(keep.shape)
        if len(sizes) != len(whole) or any(a not in (1, b) for a, b in zip(sizes, whole, strict=True)):
            raise ValueError(
                f"Mask(keep) has shape {tuple(keep.shape)}, which does not broadcast to {whole} = (..., heads, n, m). "
                "A key mask (batch, m) is written keep[:, None, None, :]; a mask (batch, n, m) is keep[:, None]."
            )
        batch = 1
        for size in lead:
            batch *= size
        keep = keep.reshape(sizes)
        if any(a != 1 for a in sizes[: len(lead)]):
            keep = keep.expand(*lead, *sizes[len(lead) :])
            return Mask(keep.reshape(batch, *sizes[len(lead) :]))
        return Mask(keep.reshape(1, *sizes[len(lead) :]))

    def kernel_form(self, n: int, m: int) -> StructureForm:
        of_keys = self.keep.shape[2] == 1
        return (
            StructureForm(KEY_MASK, keep=self.keep[:, :, 0]) if of_keys else StructureForm(PAIR_MASK, pairs=self.keep)
        )

    def allowed(self, tile: Tile) -> Tensor | None:
        batch, heads, n, m = self.keep.shape
        zero = torch.zeros_like(tile.batch)
        return self.keep[
            tile.batch if batch > 1 else zero,
            tile.head if heads > 1 else zero,
            tile.query if n > 1 else torch.zeros_like(tile.query),
            tile.key if m > 1 else torch.zeros_like(tile.key),
        ]

    def keys(self, m: int) -> Tensor | None:
        return self.keep[:, :, 0].expand(-1, -1, m) if self.keep.shape[2] == 1 else None
