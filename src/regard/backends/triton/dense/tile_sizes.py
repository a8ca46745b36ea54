"""Sizes of tiles by the shared memory that a GPU has; no Triton is imported here."""

import torch
from torch import Tensor

from ..runtime.device_support import A100_TILES_KIB, H100_TILES_KIB, shared_memory_kib


def side_of(a: Tensor, v: Tensor, core: int) -> int:
    """Rows and columns of a tile of a sparse alignment, and of every tile where it is less than 64: wide heads leave
    memory for fewer, on a GPU with little shared memory sooner."""
    width, full = max(a.shape[-1], v.shape[-1]), a.dtype == torch.float32
    has = H100_TILES_KIB if core else shared_memory_kib(a.device)  # pairs take little of it
    if full and width > 64:
        return 16 if width > 128 and has < A100_TILES_KIB else 32 if width > 128 or has < H100_TILES_KIB else 64
    return 32 if width > 128 and has < A100_TILES_KIB else 64
