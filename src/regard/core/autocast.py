"""Autocast runs products of matrices in 16 bits. What a map says must not depend on the context of whoever reads it."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A block whose arithmetic is that of its tensors' own types."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def as_autocast(*tensors: Tensor | None) -> tuple[Any, ...]:
    """Tensors as a function gets them that autocast runs in 16 bits; as they are outside autocast.

    fp64 and what is no floating point stay, as torch leaves them.
    """
    kind = next((x.device.type for x in tensors if x is not None), "meta")
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    low = torch.get_autocast_dtype(kind)
    return tuple(
        x.to(low) if x is not None and x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors
    )
