"""Launches of the feature-wise kernels: tables of exponentials, blocks, gradients of what scores are made of."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from .ranges import Ranges
from .triton_dense_call import LOG2E, or_other
from .triton_features_kernels import features_kernel, features_pull_kernel

TANH = 0
BUSY = 512  # programs of four warps that leave no multiprocessor of an H200 without work
BOUND = 60.0  # scores between 0 and -2 BOUND in base 2 need no largest one to stay finite


@dataclass(frozen=True, eq=False)
class Call:
    """One call over g = batch x heads: a (g, n, F), b, v and bias (g, m, F), all contiguous."""

    a: Tensor
    b: Tensor
    v: Tensor
    bias: Tensor | None
    ranges: Ranges
    heads: int
    kind: int
    join: int
    factor: float  # of the bent sum
    linear: float
    bent: float

    @property
    def unit(self) -> float:
        """Scores of tanh are in base 2."""
        return LOG2E if self.kind == TANH else 1.0

    @property
    def bounded(self) -> bool:
        return self.kind == TANH and self.bias is None and 0 <= self.factor * LOG2E <= BOUND

    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """a and b in fp32, of tanh their exponentials; the mode of each head."""
        a, b = self.a.float(), self.b.float()
        if self.kind != TANH:
            return a, b, a
        top = [x.abs().amax((1, 2)) if x.shape[1] else x.new_zeros(x.shape[0]) for x in (a, b)]
        near = top[0] + top[1] < 21
        exponents = [x * (2 * LOG2E) for x in (a, b)]
        a, b = (torch.where(near[:, None, None], x.exp2(), x) for x in exponents)
        return a, b, torch.where(near, 0, 2).int()

    def arguments(self, places: int) -> tuple[tuple[int, int, int], tuple[Any, ...], dict[str, Any]]:
        """The grid over so many places, what every kernel is given after its tensors, and its constants."""
        n, m, keep = self.a.shape[1], self.b.shape[1], self.ranges.keep
        left, right = (max(-(1 << 30), min(x, n + m)) for x in (self.ranges.left, self.ranges.right))
        keep_b = 0 if keep is None or keep.shape[0] == 1 else keep.stride(0)
        keep_h = 0 if keep is None or keep.shape[1] == 1 else keep.stride(1)
        numbers = (n, m, left, right, self.factor * self.unit, self.linear, self.bent, self.heads, keep_b, keep_h)
        heads, features = self.a.shape[0], self.a.shape[2]
        block = min(64, max(16, triton.next_power_of_2(features)))
        blocks, rows = triton.cdiv(features, block), 2048 // block
        if triton.cdiv(places, rows) * blocks * heads < BUSY:
            rows //= 8
        constants = {
            "F": features, "BM": rows, "BF": block, "KIND": self.kind, "JOIN": self.join,
            "BIASED": self.bias is not None, "PADDED": self.ranges.lengths is not None, "KEPT": keep is not None,
            "INTERPRETED": triton.knobs.runtime.interpret, "num_warps": 4,
        }  # fmt: skip
        return (triton.cdiv(places, rows), blocks, heads), numbers, constants

    @property
    def marks(self) -> tuple[Tensor, Tensor]:
        return or_other(self.ranges.lengths, self.a), or_other(self.ranges.keep, self.a)


def forward(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """out, and what w = exp(s - top) / sums takes, (g, n, F) fp32 each; top is of scores without tanh's constant."""
    out = call.v.new_empty(call.a.shape)
    top = torch.full(call.a.shape, float("inf"), dtype=torch.float32, device=out.device)
    sums = torch.ones_like(top)
    if out.numel():
        a, b, modes = call.tables()
        grid, numbers, constants = call.arguments(call.a.shape[1])
        features_kernel[grid](
            a, b, call.v, _bias(call), modes, *call.marks, out, top, sums, *numbers, BOUNDED=call.bounded,
            EXACT=call.v.dtype == torch.float32, **constants,
        )  # fmt: skip
    return out, top, sums


def backward(call: Call, out: Tensor, top: Tensor, sums: Tensor, dout: Tensor) -> list[Tensor | None]:
    """Gradients of a, b, v and bias."""
    da, db = (torch.zeros(x.shape, dtype=torch.float32, device=x.device) for x in (call.a, call.b))
    dv, dbias = torch.zeros_like(call.v), None if call.bias is None else torch.zeros_like(db)
    if da.numel() and db.numel():
        a, b, modes = call.tables()
        dout, bias = dout.contiguous(), _bias(call)
        delta, share = dout.float() * out.float(), sums.reciprocal()
        for keys in (False, True):
            x, y, own, other = (b, a, call.v, dout) if keys else (a, b, dout, call.v)
            grid, numbers, constants = call.arguments(x.shape[1])
            features_pull_kernel[grid](
                x, y, own, other, bias, top, share, delta, modes, *call.marks, db if keys else da, dv, or_other(dbias,
                dv), *numbers, KEYS=keys, **constants,
            )  # fmt: skip
    return [call.factor * da, call.factor * db, dv, dbias]


def _bias(call: Call) -> Tensor:
    return call.a if call.bias is None else (call.bias * call.unit).contiguous()
