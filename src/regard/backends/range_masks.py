"""Structures as ranges: for kernels that know where a block of rows looks from four numbers, without a mask tensor."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.structures import Causal, Chosen, Full, Mask, Padding, Structure, Window, shift_of

NO_BOUND = 1 << 30


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
    found = Ranges()
    for part in structure.parts():
        if isinstance(part, Full):
            continue
        if isinstance(part, Causal):
            found = found._replace(right=min(found.right, shift_of(part.align, n, m, "Causal")))
        elif isinstance(part, Window) and part.grid is None and part.dilation == 1:
            shift = shift_of(part.align, n, m, "Window")
            found = found._replace(left=min(found.left, part.left - shift), right=min(found.right, part.right + shift))
        elif isinstance(part, Padding) and found.lengths is None:
            found = found._replace(lengths=part.lengths)
        elif isinstance(part, Mask) and part.keep.shape[2] == 1 and found.keep is None:
            found = found._replace(keep=part.keep[:, :, 0].expand(-1, -1, m).to(torch.uint8).contiguous())
        elif isinstance(part, Chosen) and found.keep is None:
            found = found._replace(keep=part.selected.view(-1, part.heads, m).to(torch.uint8).contiguous())
        else:
            return None
    return found
