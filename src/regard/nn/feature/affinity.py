"""Affinity matrix: the score of every position of one input with every position of another."""

from torch import Tensor, nn

from regard.core.arguments import checked
from regard.core.scores import Activation, General, Score
from regard.core.structures import Structure

from ..attend import ScoreLike, open_keys, score_for


class Affinity(nn.Module):
    """A_ij = score(first_i, second_j), (..., n_1, n_2), with padding masked on both sides.

    score   "bilinear": tanh(k_1 W k_2), or any other; "trilinear" needs equal widths
    """

    @checked
    def __init__(self, first_dim: int, second_dim: int, score: ScoreLike = "bilinear"):
        super().__init__()
        self.score: Score
        if score == "bilinear":
            self.score = General(first_dim, second_dim) | Activation("tanh")
        else:
            self.score = score_for(score, first_dim, second_dim)
        if self.score.features is not None or self.score.stepwise:
            raise ValueError(
                f"Affinity(score={type(self.score).__name__}): expected a score with one number for each "
                "pair, independent of earlier pairs."
            )

    def forward(
        self, first: Tensor, second: Tensor, over_first: Structure | None, over_second: Structure | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A with 0 at masked pairs, and which rows and columns are valid, (..., n_1) and (..., n_2)."""
        rows, columns = open_keys(first, over_first), open_keys(second, over_second)
        first, second = first.masked_fill(~rows[..., None], 0.0), second.masked_fill(~columns[..., None], 0.0)
        table = self.score(first.unsqueeze(-3), second.unsqueeze(-3)).squeeze(-3)
        return table.masked_fill(~(rows[..., :, None] & columns[..., None, :]), 0.0), rows, columns
