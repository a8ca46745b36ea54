"""Scores that were computed elsewhere."""

from torch import Tensor

from ..core.scores import Lowered, PairBias, Score
from ..core.scores.score import no_scores


class Given(Score):
    """The scores themselves, s (..., H, n, m), up to four axes: a network of one's own has judged the pairs.

    q and k are only counted. Gradients go back to whoever made the scores.
    """

    positional = True

    def __init__(self, scores: Tensor):
        super().__init__()
        self.scores = scores

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.scores.expand(*q.shape[:-1], k.shape[-2])

    def lower(self, q: Tensor, k: Tensor) -> Lowered:
        return Lowered(no_scores(q, k), modifiers=(PairBias(self.scores),))
