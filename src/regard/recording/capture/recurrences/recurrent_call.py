"""A recurrence as a call: its map is implied, and written out only where weights are asked for."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.core.maps.attention_map import AttentionMap
from regard.core.recurrent.implied_map import ImpliedMap

from ..calls import WeightedCall

IN_A_STATE = "the past of this step is in a state, not in keys: run the whole text at once"


class RecurrentCall(WeightedCall):
    """A recurrence whose map is implied. Its weights are written out only where an intervention asks for them.

    v (B, H, n, d_v); `give` turns weights (B, H, n, n) into what the model's own function would have returned.
    """

    def __init__(self, implied: ImpliedMap, v: Tensor, give: Callable[[Tensor], Any], kernel: str):
        self.implied, self.v, self.give, self.kernel = implied, v, give, kernel
        self.own = None
        self.plain = True
        self.changed: Any = None  # what interventions made of it

    @property
    def weights(self) -> Tensor:  # type: ignore[override]
        found = self.implied.weights()
        return found.reshape(-1, self.heads, *found.shape[-2:])

    @property
    def heads(self) -> int:
        return self.implied.lead[-1] if self.implied.lead else 1

    @property
    def device(self) -> torch.device:
        return self.implied.q.device

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.implied.q, self.implied.k

    def map(self) -> AttentionMap:
        return self.implied

    def snapshot(self, keep: Callable[[Tensor], Tensor], keys: Tensor | None = None) -> "RecurrentCall":
        amap = self.implied
        parts = [None if x is None else keep(x) for x in (amap.q, amap.k, amap.decay, amap.beta)]
        copy = ImpliedMap(amap.lead, parts[0], parts[1], parts[2], parts[3], amap.slab)  # type: ignore[arg-type]
        assert self.v is not None
        return RecurrentCall(copy, self.v[..., :0], self.give, self.kernel)


def implied(
    q: Tensor, k: Tensor, decay: Tensor | None, beta: Tensor | None, scale: float, lead: tuple[int, ...]
) -> ImpliedMap:
    """From tensors (..., n, d), decay (..., n) or (..., n, d), beta (..., n), in fp32 or better."""
    made = [
        None if x is None else x.detach().to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        for x in (q, k, decay, beta)
    ]
    flat = [None if x is None else x.reshape(-1, *x.shape[len(lead) :]) for x in made]
    assert flat[0] is not None and flat[1] is not None
    return ImpliedMap(lead, flat[0] * scale, flat[1], flat[2], flat[3])
