"""Alignments that look at every key: softmax, sigmoid, ReLU, uniform."""

import math
from collections.abc import Hashable

import torch
from torch import Tensor

from ..arguments import number
from ..lowering.kernel_forms import EXPONENTIAL, POSITIVE_PART, SIGMOID, AlignmentForm
from ..lowering.score_kernels import Grads
from .alignment import NO_CONTEXT, Alignment, RowContext, RowState, counted, log_sum_exp, masked, summing_to_one, zeroed


class Softmax(Alignment, name="softmax"):
    """Soft (global) attention: a distribution over the keys, every weight positive.

        w_ij = exp(s_ij - tau_i),   tau_i = log sum_j exp s_ij

    Also known as: soft attention, global attention.
    s (..., n, m) -> w (..., n, m), rows sum to one. Bahdanau et al. 2015; Xu et al. 2015. Adding a constant to a row
    changes nothing.
    """

    def plan_key(self) -> Hashable | None:
        return (Softmax,)

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("softmax", EXPONENTIAL)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        return zeroed(torch.softmax(masked(s, keep), -1), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        return RowState(log_sum_exp(s))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return torch.exp(s - state.tau[..., None])

    def whole(self, w: Tensor) -> Tensor:
        return summing_to_one(w)

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        return w * (dw - (w * dw).sum(-1, keepdim=True))


class Sigmoid(Alignment, name="sigmoid", page="elementwise"):
    """Each key is judged by itself; rows need not sum to one.

        w_ij = 1 / (1 + exp(-(s_ij + bias))),   bias = -rate log(number of keys of row i) unless given

    Also known as: sigmoid attention.
    rate   of the bias's schedule: 1, where weights of scores near 0 sum to about one; 1/2, or 0 for no bias at all

    Ramapuram et al. 2024. With a fixed bias, adding a key does not change the other weights. tau_i = -bias.
    """

    kept = ("bias", "rate")
    rate = 1.0  # of exported programs that were written before it
    shift_invariant = False
    simplex = False

    def __init__(self, bias: float | None = None, rate: float = 1.0):
        super().__init__()
        self.bias = None if bias is None else number(bias, "Sigmoid", "bias")
        self.rate = number(rate, "Sigmoid", "rate")
        if bias is not None and rate != 1.0:
            raise ValueError(f"Sigmoid(bias={bias}, rate={rate}): a fixed bias has no schedule; give one of the two.")
        if rate == 0.0:
            self.bias, self.rate = 0.0, 1.0

    def plan_key(self) -> Hashable | None:
        return None if isinstance(self.bias, Tensor) else (Sigmoid, self.bias, self.rate)

    def kernel_form(self) -> AlignmentForm | None:
        return AlignmentForm("sigmoid", SIGMOID, bias=self.bias) if self.rate == 1.0 else None

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        if self.bias is not None:
            return zeroed(torch.sigmoid(s + self.bias), keep)
        if keep is None:
            return torch.sigmoid(s - self.rate * math.log(max(1, s.shape[-1])))
        return zeroed(torch.sigmoid(s - self.rate * keep.sum(-1, keepdim=True).clamp_min(1).to(s.dtype).log()), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        count = counted(s)
        tau = self.rate * count.clamp_min(1).to(s.dtype).log()
        tau = tau if self.bias is None else torch.full_like(tau, -self.bias)
        return RowState(tau.masked_fill(count == 0, float("inf")))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return torch.sigmoid(s - state.tau[..., None])

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        return w * (1 - w) * dw


class ReLU(Alignment, name="relu", page="elementwise"):
    """The positive part of the score, divided by the number of keys.

        w_ij = max(s_ij, 0) / count_i

    Also known as: ReLU attention, rectified linear attention.
    Wortsman et al. 2023. A row whose scores are all negative is dead: output 0, gradient 0.
    """

    shift_invariant = False
    simplex = False
    scales = True

    def plan_key(self) -> Hashable | None:
        return (ReLU,)

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("ReLU", POSITIVE_PART, 2.0)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        if keep is None:
            return torch.relu(s) / max(1, s.shape[-1])
        return zeroed(torch.relu(s) / keep.sum(-1, keepdim=True).clamp_min(1).to(s.dtype), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        count = counted(s)
        tau = torch.zeros(count.shape, dtype=s.dtype, device=s.device).masked_fill(count == 0, float("inf"))
        return RowState(tau, scale=1 / count.clamp_min(1).to(s.dtype))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        assert state.scale is not None
        return torch.relu(s - state.tau[..., None]) * state.scale[..., None]

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        assert state.scale is not None
        return (w > 0) * dw * state.scale[..., None]


class Uniform(Alignment, name="uniform"):
    """The ablation: every allowed key weighs the same, whatever its score.

        w_ij = 1 / count_i

    Also known as: mean pooling, average attention.

    Equal to softmax of constant scores; the output is the masked mean of the values. tau_i = log count_i.
    """

    uses_scores = False

    def plan_key(self) -> Hashable | None:
        return (Uniform,)

    def kernel_form(self) -> AlignmentForm:
        return AlignmentForm("uniform", EXPONENTIAL)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        if keep is None:
            return torch.full_like(s, 1 / max(1, s.shape[-1]))
        keep = keep.expand(s.shape)
        return keep.to(s.dtype) / keep.sum(-1, keepdim=True).clamp_min(1)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        count = counted(s)
        return RowState(count.clamp_min(1).to(s.dtype).log().masked_fill(count == 0, float("inf")))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return torch.exp(torch.where(s > float("-inf"), 0.0, s) - state.tau[..., None])

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        return torch.zeros_like(s)
