"""Offsets of packed sequences (cu_seqlens)."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ..arguments import shown
from ..errors import values_are_checked


@dataclass(frozen=True, eq=False)
class Packing:
    """Offsets of sequences: cu_seqlens (s + 1,), 0 first, `total` last."""

    starts: Tensor
    total: int

    @staticmethod
    def of(cu_seqlens: Tensor, total: int, name: str = "cu_seqlens") -> "Packing":
        whole = isinstance(cu_seqlens, Tensor) and not cu_seqlens.is_floating_point() and cu_seqlens.dtype != torch.bool
        if not whole or cu_seqlens.ndim != 1 or cu_seqlens.shape[0] < 1:
            raise TypeError(f"{name}={shown(cu_seqlens)}: expected integers (sequences + 1,), such as [0, 5, 9].")
        starts = cu_seqlens.long()
        if values_are_checked(starts):
            given = starts.tolist()
            if given[0] != 0 or given[-1] != total or any(b < a for a, b in pairwise(given)):
                raise ValueError(
                    f"{name} is {shown(given)}, expected 0 first, {total} last (the number of packed rows) and "
                    "no decrease."
                )
        return Packing(starts, total)

    @property
    def ids(self) -> Tensor:
        """(total,): the sequence of each row."""
        places = torch.arange(self.total, device=self.starts.device)
        return torch.searchsorted(self.starts[1:].contiguous(), places, right=True)

    @property
    def places(self) -> Tensor:
        """(total,): the position of each row in its sequence."""
        return torch.arange(self.total, device=self.starts.device) - self.starts[self.ids]

    @property
    def lengths(self) -> Tensor:
        return self.starts.diff()
