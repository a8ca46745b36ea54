"""Structures as ranges: for kernels that know where a block of rows looks from four numbers, without a mask tensor."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.structures import Causal, Full, Mask, Padding, Structure, Window, shift_of

NO_BOUND = 1 << 30


class Ranges(NamedTuple):
    """Keys j of row i with i - left <= j <= i + right and j < length, where keep says so."""

    left: int = NO_BOUND
    right: int = NO_BOUND
    lengths: Tensor | None = None  # (B,)
    keep: Tensor | None = None  # (B or 1, H or 1, m) uint8


def ranges_of(structure: Structure, n: int, m: int) -> Ranges | None:
    """A structure as ranges; None where it is none."""
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
        else:
            return None
    return found


def counts(
    ranges: Ranges, batch: int, heads: int, n: int, m: int, device: torch.device, low: Tensor | None = None,
    high: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(B, H, n): how many keys each row may see; low and high (B H, n) bound them further."""
    i = torch.arange(n, device=device)
    last = torch.full((batch, 1, 1), m, device=device)
    if ranges.lengths is not None:
        last = ranges.lengths.reshape(-1, 1, 1).clamp_max(m)
    start = (i - ranges.left).clamp(0, m).expand(batch, heads, n)
    stop = torch.minimum((i + ranges.right + 1).clamp(0, m), last).expand(batch, heads, n)
    if low is not None and high is not None:
        start, stop = (
            torch.maximum(start, low.view(batch, heads, n)), torch.minimum(stop, high.view(batch, heads, n))
        )  # fmt: skip
    stop = torch.maximum(start, stop)
    if ranges.keep is None:
        return stop - start
    before = torch.nn.functional.pad(ranges.keep.long().cumsum(-1), (1, 0)).expand(batch, heads, m + 1)
    return before.gather(-1, stop) - before.gather(-1, start)
