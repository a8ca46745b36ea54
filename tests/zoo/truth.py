"""The independent truth: what the audit saw of an unrecorded run, with every weight in fp64."""

from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from regard.recording.audit.audit import Audit
from regard.recording.audit.event import AuditEvent, Start

MOST = 20_000_000  # weights of one normalisation that are kept; tiny models stay far below


class TruthAudit(Audit):
    """Keeps the weights of each normalisation in double precision: weights[start], (..., keys)."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.weights: dict[Start, Tensor] = {}
        self.largest: dict[Start, float] = {}  # scores, by which fp32 rounds
        self.used: dict[AuditEvent, Tensor] = {}  # as they met the values, in the model's own precision

    def started(self, start: Start, operator: str, args: tuple, kwargs: dict, out: Any) -> None:
        if "softmax" in operator and "log" not in operator and operator != "_sparse_softmax":
            x, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
            if x.numel() <= MOST and not x.is_nested:
                self.weights[start] = torch.softmax(x.double(), dim).nan_to_num(0.0).movedim(dim, -1)
                finite = x[x.abs() < 1e4]
                self.largest[start] = float(finite.abs().max()) if finite.numel() else 0.0
        elif operator.startswith("_scaled_dot_product"):
            self._fused(start, args, kwargs)
        elif isinstance(out, Tensor) and out.layout is torch.strided and out.ndim and out.numel() <= MOST:
            self.weights[start], self.largest[start] = out.detach().double().clone(), 0.0  # as the model divided them

    def _fused(self, start: Start, args: tuple, kwargs: dict) -> None:
        """_scaled_dot_product_*(query, key, value, dropout or mask, is_causal, attn_mask=, scale=)."""
        q, k = args[0].double(), args[1].double()
        if q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] > MOST:
            return
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        scale = kwargs.get("scale")
        s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
        mask = kwargs.get("attn_mask", kwargs.get("attn_bias"))
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else s + mask.double()
        if kwargs.get("is_causal", len(args) > 4 and args[4]):
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
        self.weights[start] = torch.softmax(s, -1).nan_to_num(0.0)
        finite = s[s.abs() < 1e4]
        self.largest[start] = float(finite.abs().max()) if finite.numel() else 0.0

    def met(self, event: AuditEvent, weights: Any) -> None:
        if weights is not None and weights.layout is torch.strided and weights.numel() <= MOST:
            self.used[event] = weights.detach().double().clone()

    def of(self, event: AuditEvent) -> list[tuple[Tensor, float]]:
        """The weights of an event, each with the bound that a map must keep: 1e-5, 2e-5 where scores are large.

        Those that were made, in double precision; and those that met the values, which may be masked or mixed since.
        """
        made = [(self.weights[s], 2e-5 if self.largest[s] > 16 else 1e-5) for s in event.starts if s in self.weights]
        return made + ([(self.used[event], 1e-5)] if event in self.used else [])


def error(found: Tensor, truth: Tensor) -> float:
    """The largest difference of a map from the truth, whose axes may stand in another order."""
    found = found.double()
    if found.numel() != truth.numel():
        return float("inf")
    best = float((found.reshape(truth.shape) - truth).abs().max()) if truth.numel() else 0.0
    if best <= 1e-5 or truth.ndim > 5:
        return best
    for order in permutations(range(truth.ndim)):
        turned = truth.permute(order)
        if truth.ndim < 4 or order[-1] >= truth.ndim - 2:
            best = min(best, float((found.reshape(turned.shape) - turned).abs().max()))
    return best
