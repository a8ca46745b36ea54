"""Autocast: maps are read outside it, so that their weights do not depend on the context of the reader."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A context without autocast."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def as_autocast(*tensors: Tensor | None) -> tuple[Any, ...]:
    """The tensors, cast as autocast casts arguments of 16-bit operators; unchanged outside autocast.

    fp64 and integers are left unchanged, as in torch.
    """
    kind = next((x.device.type for x in tensors if x is not None), "meta")
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    low = torch.get_autocast_dtype(kind)
    return tuple(
        x.to(low) if x is not None and x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors
    )
