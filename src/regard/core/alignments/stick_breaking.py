"""Stick-breaking: each key takes its share of what nearer keys have left."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..lowering.score_kernels import Grads
from .alignment import NO_CONTEXT, Alignment, RowContext, RowState, zeroed


class StickBreaking(Alignment, name="stick_breaking"):
    """Each key takes a share of what the keys after it have left, the last allowed key first.

        w_ij = sigmoid(s_ij) prod_{l > j} (1 - sigmoid(s_il)),   l over the allowed keys of row i

    Also known as: stick-breaking process.
    s (..., n, m) -> w (..., n, m), rows sum to at most one. Tan et al. 2024, over=Window(n, -1): the nearest key first,
    and never the query's own. A weight depends on the scores of all later keys, so maps compute whole rows from queries
    and keys, without an n x m matrix; tau is the logarithm of what no key took. Edges and sinks have no order of keys.
    1 - sum_j w_ij = prod_j (1 - sigmoid(s_ij)).
    """

    shift_invariant = False
    simplex = False
    ordered = True

    def forward(self, s: Tensor, keep: Tensor | None = None, noise: Tensor | None = None) -> Tensor:
        if keep is None:
            return torch.exp(logsigmoid(s) + _sum_of_later(logsigmoid(-s)))
        s = s.masked_fill(~keep, 0.0)
        return zeroed(torch.exp(logsigmoid(s) + _sum_of_later(logsigmoid(-s).masked_fill(~keep, 0.0))), keep)

    def state(self, s: Tensor, context: RowContext = NO_CONTEXT) -> RowState:
        empty = (s == float("-inf")).all(-1)
        return RowState(logsigmoid(-s).sum(-1).masked_fill(empty, float("inf")))

    def weights(self, s: Tensor, state: RowState, context: RowContext = NO_CONTEXT) -> Tensor:
        return torch.exp(logsigmoid(s) + _sum_of_later(logsigmoid(-s)))  # -inf: a share of 0, and nothing taken

    def vjp(
        self, s: Tensor, w: Tensor, dw: Tensor, state: RowState, grads: Grads, context: RowContext = NO_CONTEXT
    ) -> Tensor:
        share, gain = torch.sigmoid(s), w * dw
        earlier = gain.cumsum(-1) - gain  # of the keys that come after this one in the breaking
        return gain * torch.sigmoid(-s) - share * earlier


def _sum_of_later(x: Tensor) -> Tensor:
    """sum_{l > j} x_l along the last axis."""
    later = torch.cat([x[..., 1:], torch.zeros_like(x[..., :1])], -1)
    return later.flip(-1).cumsum(-1).flip(-1)
