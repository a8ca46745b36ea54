"""Sizes of tiles by the shared memory that a GPU has; no Triton is imported here."""

import torch
from torch import Tensor

from ..runtime.device_support import MUCH, SOME, room


def side_of(a: Tensor, v: Tensor, core: int) -> int:
    """Rows and columns of a tile of a sparse alignment, and of every tile where it is less than 64: wide heads leave
    memory for fewer, on a GPU with little shared memory sooner."""
    width, full = max(a.shape[-1], v.shape[-1]), a.dtype == torch.float32
    has = MUCH if core else room(a.device)  # pairs take little of it
    if full and width > 64:
        return 16 if width > 128 and has < SOME else 32 if width > 128 or has < MUCH else 64
    return 32 if width > 128 and has < SOME else 64
