"""Attention pooling: a sequence into one vector, query-free or by a learned query."""

from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike
from ..call_checks import reads


class AttentionPooling(nn.Module):
    """A sequence pooled into one vector by learned weights.

        c = sum_j w_j f_j,   w = align_j score(f_j)

    features (..., n, dim)  ->  out (..., dim); map (..., 1, 1, n)

    score   "query_free" (w . tanh(W f + b)), or any other with a learned query

    Also known as: pooling by a learned query, PMA, Set Transformer pooling.
    Yang et al. 2016; the survey's self-attentive query of the constant kind (eq. 33, 34). The order of the features
    does not matter.
    """

    @checked
    def __init__(
        self,
        dim: int,
        *,
        score: ScoreLike = "query_free",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.attention = Attend(None, dim, score, align, dropout)

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Attended:
        attended = self.attention(None, features, over=over)
        return Attended(attended.out.squeeze(-2), attended.map, attended.sample, attended.state)
