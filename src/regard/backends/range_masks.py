"""Structures as ranges: for kernels that know where a block of rows looks from four numbers, without a mask tensor."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.lowering.kernel_forms import ALL_PAIRS, CAUSAL, KEY_MASK, NO_BOUND, PADDING, WINDOW, StructureForm
from ..core.structures import Structure

RANGES = (ALL_PAIRS, CAUSAL, WINDOW, PADDING, KEY_MASK)  # families of structures that are ranges


class Ranges(NamedTuple):
    """Keys j of row i with i - left <= j <= i + right and j < length, where keep says so."""

    left: int = NO_BOUND
    right: int = NO_BOUND
    lengths: Tensor | None = None  # (B,)
    keep: Tensor | None = None  # (B or 1, H or 1, m) uint8

    def numbers(self, n: int, m: int) -> tuple[int, int, int, int]:
        """left and right as kernels take them, of n rows and m keys; strides of the mask over items and heads."""
        left, right = (max(-NO_BOUND, min(x, n + m)) for x in (self.left, self.right))
        by_item, by_head = (0, 0) if self.keep is None else self.keep.stride()[:2]
        if self.keep is not None and self.keep.shape[0] == 1:
            by_item = 0
        if self.keep is not None and self.keep.shape[1] == 1:
            by_head = 0
        return left, right, by_item, by_head


def ranges_of(structure: Structure, n: int, m: int) -> Ranges | None:
    """A structure as ranges; None where it cannot be written as ranges."""
    return joined_ranges([part.kernel_form(n, m) for part in structure.parts()], m)


def joined_ranges(forms: "list[StructureForm | None]", m: int) -> Ranges | None:
    """The pairs that all of these leave, as ranges over m keys; None where they are more than ranges."""
    joined = Ranges()
    for form in forms:
        if form is None or form.family not in RANGES:
            return None
        if (form.lengths is not None and joined.lengths is not None) or (
            form.keep is not None and joined.keep is not None
        ):
            return None  # kernels read one of each
        left, right = min(joined.left, form.left), min(joined.right, form.right)
        lengths = joined.lengths if form.lengths is None else form.lengths
        keep = joined.keep if form.keep is None else form.keep.expand(-1, -1, m).to(torch.uint8).contiguous()
        joined = Ranges(left, right, lengths, keep)
    return joined
