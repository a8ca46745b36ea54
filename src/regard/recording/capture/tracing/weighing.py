"""Weights meet values: which product is attention, and the call that it is.

Attention is a contraction of weights and values over the axis that was normalised, where that axis counts activations
on both sides. The map is of the very weights that met the values, but for dropout.
"""

from typing import Any

import torch
from torch import Tensor

from ..calls import WeightedCall
from .arguments import replaced, with_tensor
from .contractions import Contraction, Operand
from .step import Followed, TracerStep
from .trace import Trace


def contracted_letter(operand: Operand, trace: Trace, made: Contraction) -> Any:
    """The letter of the axis that the weights are normalised over; of elementwise weights one that is summed."""
    if trace.axis is not None:
        return operand.letters[trace.axis]
    summed = [x for x in operand.letters if x not in made.out]
    return summed[0] if len(summed) == 1 else None


class Weighing:
    """A product of weights `operand`, whose trace is known, with values."""

    def __init__(self, made: Contraction, operand: Operand, trace: Trace, letter: Any):
        self.made, self.operand, self.trace, self.letter = made, operand, trace, letter
        others = [x for x in made.operands if x is not operand]
        own = set(operand.letters)
        beside_them = [x for x in others if not own.issuperset(x.letters)]
        self.factors = [x for x in others if own.issuperset(x.letters)] if beside_them else []  # a mask as an operand
        others = [x for x in others if x not in self.factors]
        self.values = [x for x in others if letter in x.long()] or [x for x in others if letter in x.letters]
        beside = {x for other in self.values for x in other.long()}
        rows = [x for x in operand.letters if x != letter and x not in beside]
        self.row = rows[-1] if rows else None
        lead = [x for x in operand.letters if x not in (letter, self.row)]
        self.places = [operand.letters.index(x) for x in [*lead, *([] if self.row is None else [self.row]), letter]]

    def turn(self, x: Tensor) -> Tensor:
        """The weights' own axes into (..., n, m)."""
        x = x.permute(self.places)
        return x.unsqueeze(-2) if self.row is None else x

    def back(self, w: Tensor) -> Tensor:
        """(..., n, m) into the weights' own axes."""
        w = w.squeeze(-2) if self.row is None else w
        return w.permute([self.places.index(i) for i in range(len(self.places))])

    def weights(self) -> Tensor:
        """What met the values, (..., n, m): with a third operand that has no axes of its own, their product."""
        w = self.trace.weights
        for factor in self.factors:
            order = [i for i, x in enumerate(self.operand.letters) if x in factor.letters]
            x = factor.tensor.detach().permute([factor.letters.index(self.operand.letters[i]) for i in order])
            for i in range(w.ndim):
                x = x if i in order else x.unsqueeze(i)
            w = w * x
        return self.turn(w)

    def call(self, step: TracerStep, found: Followed) -> WeightedCall:
        turned = self.weights()
        shape, dtype = turned.shape, found.tensor.dtype
        call = batched(turned, step.mode.heads)
        call.kernel = self.trace.how
        if self.trace.peak is not None and not self.factors:
            call.peak = self.turn(self.trace.peak).reshape(*call.weights.shape[:-1], 1)
        call.v = self.values[0].tensor
        call.root = found.tensor if found.tensor.layout == torch.strided else found.tensor.to_dense()
        call.canonical = lambda w: self.turn(w).reshape(call.weights.shape)
        call.used = None if self.factors else call.canonical(call.root)
        lead = self.values[0].letters[:-2]
        call.plain = len(self.values) == 1 and (*lead, self.row, self.letter) == self.operand.letters
        ones = {x.place: torch.ones_like(x.tensor) for x in self.factors}

        def give(w: Tensor) -> Any:
            put = {found.place: self.back(w.reshape(shape).to(dtype))} | ones
            listed, named = replaced(step.args, step.kwargs, put)
            return step.func(*listed, **named)

        call.give = give
        return call


def batched(weights: Tensor, heads: list[int]) -> WeightedCall:
    """(B, H, n, m) from (n, m), (B, n, m), (B H, n, m) or (..., H, n, m)."""
    if weights.ndim == 2:
        return WeightedCall(weights[None, None])
    if weights.ndim == 3:
        if heads and weights.shape[0] % heads[-1] == 0:
            return WeightedCall(weights.unflatten(0, (-1, heads[-1])))
        return WeightedCall(weights[:, None])
    return WeightedCall(weights.flatten(0, -4))


def summed_call(step: TracerStep, found: Followed, axis: int) -> WeightedCall:
    """Of a product that is summed over `axis`: axes that only the values have are left out of the map."""
    trace = found.trace
    factors = trace.factors
    assert factors is not None
    w, v = factors.weights, factors.values
    own = [i for i in range(w.ndim) if i != axis and not (w.stride(i) == 0 and w.shape[i] > 1)]
    rows = [i for i in own if v.shape[i] == 1 or v.stride(i) == 0]
    row = rows[-1] if rows else None
    order = [*(i for i in own if i != row), *([] if row is None else [row]), axis]
    index = tuple(slice(None) if i in order else 0 for i in range(w.ndim))
    kept = sorted(order)

    def turn(x: Tensor) -> Tensor:
        x = x[index].permute([kept.index(i) for i in order])
        return x.unsqueeze(-2) if row is None else x

    turned = turn(w)
    shape = turned.shape

    def give(given: Tensor) -> Any:
        x = given.reshape(shape)
        x = x.squeeze(-2) if row is None else x
        x = x.permute([order.index(i) for i in kept])
        for i in range(w.ndim):
            x = x if i in order else x.unsqueeze(i)
        return with_tensor(step.func, step.args, step.kwargs, found.place, x.to(v.dtype) * v)

    call = batched(turned, step.mode.heads)
    call.kernel = f"{trace.how}, a product and a sum"
    call.v = v
    call.give = give
    root = factors.root
    if root is not None:
        call.root, call.canonical = root, lambda x: turn(x.expand(w.shape)).reshape(call.weights.shape)
        call.used = call.canonical(root)
    return call
