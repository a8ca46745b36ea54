"""Gradients of attention weights without an eager pass: dA = dO V^T, from the gradient of a fused kernel's output."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.core.autocast import without_autocast
from regard.core.maps.attention_map import AttentionMap

from ..capture.calls import ScoredCall, WeightedCall
from ..capture.gradient_hook import OnError, on_gradient


class LazyGradient(AttentionMap):
    """The gradient of a loss with respect to each weight, available after a backward pass; 0 for masked pairs.

    dw_ij = dy_i . v_j,   or dw_cij = dy_ic v_jc of weights that each feature has for itself
    """

    def __init__(self, call: ScoredCall, out: Tensor, copy: Callable[[Tensor], Tensor], failed: OnError):
        q = call.q
        super().__init__((q.shape[0], q.shape[1]), q.shape[2], call.k.shape[2], slice(0, q.shape[0] * q.shape[1]))
        self.pull: Tensor | None = None
        heads, v = q.shape[1], copy(call.v)
        self.v = v if v.shape[1] == heads else v.repeat_interleave(heads // v.shape[1], 1)
        self.call = call.snapshot(copy)
        self.features = self.call.map().features
        shape = (q.shape[0], heads, q.shape[2], v.shape[-1])

        def hold(grad: Tensor) -> None:
            pull = copy(grad).reshape(shape)
            self.pull = pull if self.pull is None else self.pull + pull

        on_gradient(out, hold, failed)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        if self.pull is None:
            raise RuntimeError("There is no gradient yet: call backward() on a loss after the forward pass.")
        with torch.no_grad(), without_autocast(self.v.device):
            pull, v = (x.flatten(0, 1)[self.slab] for x in (self.pull, self.v))
            pull, v = (x if x.dtype == torch.float64 else x.float() for x in (pull, v))
            pull, v, allowed = pull[:, rows], v[:, cols], self.call.map().allowed(rows, cols)[self.slab] > 0
            if self.features is not None:  # (g, F, rows, cols)
                return pull.mT[..., :, None] * v.mT[..., None, :] * allowed[:, None]
            return pull @ v.mT * allowed

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return self.call.map().allowed(rows, cols)[self.slab]

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "LazyGradient":
        made: Any = object.__new__(LazyGradient)
        made.__dict__.update(self.__dict__)
        made.lead, made.slab, made._pyramid = lead, slab, None
        return made


class StoredGradient(AttentionMap):
    """The gradient of a loss with respect to hand-written weights, after dropout; 0 where they are 0."""

    def __init__(self, call: WeightedCall, copy: Callable[[Tensor], Tensor], failed: OnError):
        b, h, n, m = call.weights.shape
        super().__init__((b, h), n, m, slice(0, b * h))
        self.given: Tensor | None = None
        canonical, closed = call.canonical, copy(call.weights) == 0

        def hold(grad: Tensor) -> None:
            made = copy(canonical(grad)).masked_fill(closed, 0.0).flatten(0, 1)
            self.given = made if self.given is None else self.given + made

        assert call.root is not None
        on_gradient(call.root, hold, failed)

    def band(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        if self.given is None:
            raise RuntimeError("There is no gradient yet: call backward() on a loss after the forward pass.")
        return self.given[self.slab][..., rows, :][..., cols]

    def allowed(self, rows: "slice | Tensor", cols: "slice | Tensor") -> Tensor:
        return torch.ones_like(self.band(rows, cols), dtype=torch.long)

    def narrowed(self, lead: tuple[int, ...], slab: slice) -> "StoredGradient":
        made: Any = object.__new__(StoredGradient)
        made.__dict__.update(self.__dict__)
        made.lead, made.slab, made._pyramid = lead, slab, None
        return made
