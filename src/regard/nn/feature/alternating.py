"""Alternating co-attention: two inputs take turns as the query."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike
from ..call_checks import reads
from ..composed import Composed


class AlternatingCoAttention(nn.Module):
    """Summarise the first input, attend the second with the summary, then the first again with that context.

        c_0 = Att_1(no query, F_1),   c_2 = Att_2(c_0, F_2),   c_1 = Att_1(c_2, F_1),   out = [c_1; c_2]

    first (..., n_1, first_dim), second (..., n_2, second_dim)  ->  out (..., first_dim + second_dim)
    maps: summary, second, first, one row each

    tied    True (the survey): the summary has the parameters of the last step and a query of zeros;
            False (the authors' code): parameters of its own, query-free

    Lu et al. 2016. Coarse: one weight for each position. Not symmetric in the two inputs.
    If tied and the query matrix of the last step is 0, c_1 = c_0.
    """

    @checked
    def __init__(
        self,
        first_dim: int,
        second_dim: int | None = None,
        *,
        score: ScoreLike = "additive",
        align: "str | Alignment" = "softmax",
        tied: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        second_dim = second_dim or first_dim
        self.tied, self.second_dim = tied, second_dim
        self.summary = None if tied else Attend(None, first_dim, "query_free", align, dropout)
        self.second = Attend(first_dim, second_dim, score, align, dropout)
        self.first = Attend(second_dim, first_dim, score, align, dropout)

    @reads(first="first_dim", second=("second_dim", "first_dim"))
    def forward(
        self, first: Tensor, second: Tensor, over_first: Structure | None = None, over_second: Structure | None = None
    ) -> Composed:
        if self.summary is None:
            nobody = first.new_zeros(*first.shape[:-2], 1, self.second_dim)
            summary = self.first(nobody, first, over=over_first)
        else:
            summary = self.summary(None, first, over=over_first)
        two = self.second(summary.out, second, over=over_second)
        one = self.first(two.out, first, over=over_first)
        out = torch.cat([one.out, two.out], -1).squeeze(-2)
        return Composed(out, {"summary": summary, "second": two, "first": one})
