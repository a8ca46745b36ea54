"""Softpick: a softmax that may pick nothing."""

from collections.abc import Hashable

import torch
from torch import Tensor

from ..lowering.score_kernels import Grads
from .alignment import NO_CONTEXT, Alignment, RowContext, RowState, zeroed

LARGEST = 40.0  # exp of it squared is finite in fp32; larger scores are shifted down to it


class Softpick(Alignment, name="softpick"):
    """A softmax that may pick nothing: keys that score below 0 weigh 0, and yet count in the sum.

        w_ij = max(exp(s_ij) - 1, 0) / sum_l |exp(s_il) - 1|,   tau_i = log sum_l |exp(s_il) - 1|

    Also known as: rectified softmax.
    s (..., n, m) -> w (..., n, m), rows sum to at most one: no key has to take weight that nobody earned. Zuhri et al.
    2025. A row sums to one where no score is negative, and to zero where none is positive.
    """

    shift_invariant = False
    simplex = False

    def plan_key(self) -> Hashable | None:
        return (Softpick,)

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        excess, _ = _excess(s if keep is None else s.masked_fill(~keep, float("-inf")))
        return zeroed(torch.relu(excess) / _divisor(excess), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        excess, shift = _excess(s)
        total = excess.abs().sum(-1)
        return RowState((total.log() + shift.squeeze(-1)).masked_fill(total == 0, float("inf")))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        tau = state.tau[..., None]
        near, far = torch.expm1(s.clamp_max(1.0)) * torch.exp(-tau), torch.exp(s - tau) - torch.exp(-tau)
        return torch.relu(torch.where(s < 1.0, near, far))

    def weights_of_rows(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        excess, _ = _excess(s)
        return torch.relu(excess) / _divisor(excess)

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        slope = torch.exp(s - state.tau[..., None])  # 0 where a pair is masked, and in rows that pick nothing
        earned = (w * dw).sum(-1, keepdim=True)
        return slope * (torch.where(s > 0, dw, 0.0) - torch.sign(s) * earned)


def _excess(s: Tensor) -> tuple[Tensor, Tensor]:
    """exp(s) - 1, divided by exp(shift) so that no row overflows, and the shift (..., n, 1); 0 where masked."""
    s = torch.where(s != float("-inf"), s, 0.0)
    if s.shape[-1] == 0:
        return s, s.new_zeros((*s.shape[:-1], 1))
    shift = (s.detach().amax(-1, keepdim=True) - LARGEST).clamp_min(0.0)
    near, far = torch.expm1(s.clamp_max(1.0)) * torch.exp(-shift), torch.exp(s - shift) - torch.exp(-shift)
    return torch.where(s < 1.0, near, far), shift


def _divisor(excess: Tensor) -> Tensor:
    """The sum of each row; 1 where it is 0, since nothing is divided there."""
    total = excess.abs().sum(-1, keepdim=True)
    return total.masked_fill(total == 0, 1.0)
