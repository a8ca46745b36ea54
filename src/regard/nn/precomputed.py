"""Precomputed scores."""

from torch import Tensor

from ..core.scores import Lowered, PairBias, Score
from ..core.scores.score import no_scores


class Given(Score):
    """Precomputed scores s (..., H, n, m), up to four axes, for example from a network over pairs.

    Only the lengths of q and k are used. Gradients flow back into the scores.
    """

    positional = True

    def __init__(self, scores: Tensor):
        super().__init__()
        self.scores = scores

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.scores.expand(*q.shape[:-1], k.shape[-2])

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(no_scores(q, k), modifiers=(PairBias(self.scores),))
