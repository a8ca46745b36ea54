"""Launches of the feature-wise kernels: one forward, two backward, and nothing that torch computes beside them."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from regard.backends.range_masks import Ranges
from regard.core.lowering.kernel_forms import NO_BOUND

from ..dense.launch_config import or_other
from ..runtime.launch_replay import alloc, gradient_of, record_op, replayed
from ..runtime.triton_private import INTERPRETED
from .kernels import features_kernel, features_pull_kernel
from .shapes import LOG2E, bounded, rows_shape

TANH = 0
BUSY = 512  # programs of four warps that leave no multiprocessor of an H200 without work
REGISTERS = 128  # of a thread: four such programs a multiprocessor


@dataclass(eq=False)
class FeatureCall:
    """One call over g = batch x heads: a (g, n, F), b and v (g, m, F), all contiguous, each of a type of its own."""

    a: Tensor
    b: Tensor
    v: Tensor
    bias: Tensor | None  # (g, m, F), of any strides
    ranges: Ranges
    heads: int
    kind: int
    join: int
    factor: float  # s = factor h(steep z)
    steep: float  # of tanh alone
    linear: float
    bent: float

    def arguments(self, places: int) -> tuple[tuple[int, int, int], tuple[Any, ...], dict[str, Any]]:
        """The grid over so many places, what every kernel is given after its tensors, and its constants."""
        n, m, bias = self.a.shape[1], self.b.shape[1], self.bias
        left, right, keep_b, keep_h = self.ranges.numbers(n, m)
        unit = LOG2E if self.kind == TANH else 1.0  # scores of tanh are in base 2
        numbers = (
            n,
            m,
            left,
            right,
            self.factor * unit,
            2 * LOG2E * self.steep,
            self.linear,
            self.bent,
            self.heads,
            keep_b,
            keep_h,
            *((0, 0, 0) if bias is None else bias.stride()),
        )
        heads, features = self.a.shape[0], self.a.shape[2]
        block = min(64, max(16, triton.next_power_of_2(features)))
        blocks, rows = triton.cdiv(features, block), 2048 // block
        if triton.cdiv(places, rows) * blocks * heads < BUSY:
            rows //= 4
        constants = {
            "F": features,
            "BLOCK_M": rows,
            "BF": block,
            "KIND": self.kind,
            "JOIN": self.join,
            "BIASED": bias is not None,
            "PADDED": self.ranges.lengths is not None,
            "KEPT": self.ranges.keep is not None,
            "BOUNDED": bounded(self.kind, self.factor, bias),
            "INTERPRETED": INTERPRETED,
            "EXACT": self.v.dtype == torch.float32,
            "num_warps": 4,
            "maxnreg": REGISTERS,
        }
        return (triton.cdiv(places, rows), blocks, heads), numbers, constants

    @property
    def gain(self) -> float:
        """Of a score, what the kernels' slope is multiplied by."""
        return self.factor * self.steep * (4.0 if self.kind == TANH else 1.0)

    @property
    def marks(self) -> tuple[Tensor, Tensor]:
        return or_other(self.ranges.lengths, self.a), or_other(self.ranges.keep, self.a)


def _call(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    bias: Tensor | None,
    lengths: Tensor | None,
    keep: Tensor | None,
    left: int,
    right: int,
    heads: int,
    *numbers: Any,
) -> FeatureCall:
    a, b, v = (record_op(Tensor.contiguous, x) for x in (a, b, v))
    return FeatureCall(a, b, v, bias, Ranges(min(left, NO_BOUND), min(right, NO_BOUND), lengths, keep), heads, *numbers)


@replayed
def run(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What `features_op` says, of its arguments."""
    call = _call(*given)
    a, v = call.a, call.v
    out, tau = alloc(tuple(a.shape), a.device, v.dtype), alloc(tuple(a.shape), a.device)
    rows = alloc(rows_shape(a, call.kind, call.factor, call.bias), a.device)
    if out.numel():
        grid, numbers, constants = call.arguments(a.shape[1])
        features_kernel[grid](a, call.b, v, or_other(call.bias, a), *call.marks, out, tau, rows, *numbers, **constants)
    return out, tau, rows


@gradient_of(run)
def run_back(*given: Any) -> list[Tensor]:
    """What `features_triton_backward` says, of its arguments."""
    call, (out, rows, dout) = _call(*given[:-3]), given[-3:]
    a, b, v, bias = call.a, call.b, call.v, call.bias
    out, dout = record_op(Tensor.contiguous, out), record_op(Tensor.contiguous, dout)
    found = [alloc(tuple(x.shape), a.device, x.dtype) for x in (a, b, v, bias) if x is not None]
    for keys in (False, True):
        x, y, own, other = (b, a, v, dout) if keys else (a, b, dout, v)
        if x.numel():
            grid, numbers, constants = call.arguments(x.shape[1])
            features_pull_kernel[grid](
                x,
                y,
                own,
                other,
                or_other(bias, a),
                out,
                rows,
                *call.marks,
                found[keys],
                found[2],
                found[-1],
                *numbers,
                call.gain,
                KEYS=keys,
                **constants,
            )
    return found
