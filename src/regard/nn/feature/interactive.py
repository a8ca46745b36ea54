"""Interactive co-attention: the mean of each input is the query over the other."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, mean
from ..call_checks import reads
from ..composed import Composed


class InteractiveCoAttention(nn.Module):
    """The mean of each input is the query over the other, both at once.

        c_1 = Att_1(mean F_2, F_1),   c_2 = Att_2(mean F_1, F_2),   out = [c_1; c_2]

    first (..., n_1, first_dim), second (..., n_2, second_dim)  ->  out (..., first_dim + second_dim)
    maps: first, second, one row each; means are over valid positions

    Also known as: IAN, interactive attention network.
    Ma et al. 2017 (IAN), with the activated general score. Coarse: one weight for each position. Swapping the inputs
    together with the two scores swaps the halves of the output.
    """

    @checked
    def __init__(
        self,
        first_dim: int,
        second_dim: int | None = None,
        *,
        score: ScoreLike = "activated_general",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        second_dim = second_dim or first_dim
        self.first = Attend(second_dim, first_dim, score, align, dropout)
        self.second = Attend(first_dim, second_dim, score, align, dropout)

    @reads(first="first_dim", second=("second_dim", "first_dim"))
    def forward(
        self, first: Tensor, second: Tensor, over_first: Structure | None = None, over_second: Structure | None = None
    ) -> Composed:
        one = self.first(mean(second, over_second), first, over=over_first)
        two = self.second(mean(first, over_first), second, over=over_second)
        return Composed(torch.cat([one.out, two.out], -1).squeeze(-2), {"first": one, "second": two})
