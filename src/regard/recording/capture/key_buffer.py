"""Keys that grow with a KV cache: the decoding steps of a site share one buffer."""

from collections.abc import Callable

import torch
from torch import Tensor

from .calls import ScoredCall, _folded


class KeyBuffer:
    """The keys of one site. Each decoding step has the keys of the step before and one more: they are stored once."""

    def __init__(self) -> None:
        self.buffer: Tensor | None = None
        self.count = 0
        self.view: Tensor | None = None  # the keys of the step before

    def extend(self, call: ScoredCall, copy: Callable[[Tensor], Tensor]) -> Tensor:
        """The keys of this call, (B, H_k, m, d); they may share memory with those of earlier calls."""
        keys = _folded(call.k.detach(), call.heads)
        old, count, m = self.buffer, self.count, keys.shape[2]
        grows = old is not None and m > count > 0 and old.shape[:2] == keys.shape[:2]
        if grows and old is not None and (keys.dtype, keys.device) != (old.dtype, old.device):
            keys = copy(keys)  # kept as another type, and compared as that
        if (
            not grows
            or old is None
            or self.view is None
            or old.dtype != keys.dtype
            or not torch.equal(self.view, keys.narrow(2, 0, count))
        ):
            self.buffer, self.count = copy(keys), m
            self.view = self.buffer.data
            return self.buffer
        if m > old.shape[2]:
            grown = keys.new_empty((*keys.shape[:2], max(m, 2 * old.shape[2]), keys.shape[3]))
            grown[:, :, :count] = old[:, :, :count]
            self.buffer = old = grown
        # .data has a version of its own: the maps of the steps before see no change, and there is none in their rows
        bare = old.data
        bare.narrow(2, count, m - count).copy_(keys.narrow(2, count, m - count))
        self.count, self.view = m, bare.narrow(2, 0, m)
        return self.view
