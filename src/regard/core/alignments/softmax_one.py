"""A softmax with one more key that scores 0 and has no value."""

import torch
from torch import Tensor

from ..lowering.score_kernels import Grads
from .alignment import NO_CONTEXT, Alignment, RowContext, RowState, log_sum_exp, zeroed


class SoftmaxOne(Alignment, name="softmax1", page="softmax_one"):
    """A softmax that may give nothing: one is added to its sum.

        w_ij = exp(s_ij) / (1 + sum_l exp(s_il)),   tau_i = log(1 + sum_l exp(s_il))

    Also known as: softmax-off-by-one, quiet softmax, off-by-one softmax.
    s (..., n, m) -> w (..., n, m), rows sum to less than one. Miller 2023. It is softmax with a `Sink` whose logit is
    0, which is how kernels run it: score | Sink(torch.zeros(heads)) under softmax gives the same weights.
    """

    shift_invariant = False
    simplex = False

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        s = s if keep is None else s.masked_fill(~keep, float("-inf"))
        return zeroed(torch.softmax(torch.nn.functional.pad(s, (0, 1)), -1)[..., :-1], keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        tau = log_sum_exp(torch.nn.functional.pad(s, (0, 1)))
        return RowState(tau.masked_fill((s == float("-inf")).all(-1), float("inf")))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return torch.exp(s - state.tau[..., None])

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        return w * (dw - (w * dw).sum(-1, keepdim=True))
