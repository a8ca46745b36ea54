"""External attention: every position attends a small learned memory shared by all images."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, open_keys, score_for
from ..call_checks import reads


class ExternalAttention(nn.Module):
    """Positions attend a learned memory instead of each other, in linear time.

        s_ij = score(x_i, M_k,j),   double: s_ij - log sum_i' exp s_i'j,   out_i = sum_j align_j(s_ij) M_v,j

    features (..., n, dim)  ->  out (..., n, dim); map (..., 1, n, slots)

    slots    rows of the memory, M_k and M_v (slots, dim)
    double   the paper's double normalisation: first over positions, then over slots
    over     valid positions; padding is excluded from the first normalisation

    Also known as: EANet, memory slots.
    Guo et al. 2022. In the taxonomy: basic queries over learned features (singular, dot score); double normalisation is
    a softmax with a bias for each key. The cost is n x slots. Without double, positions do not influence one another.
    """

    @checked
    def __init__(
        self,
        dim: int,
        slots: int = 64,
        *,
        double: bool = True,
        score: ScoreLike = "dot",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.twice = double
        self.keys, self.values = (nn.Parameter(torch.empty(slots, dim).normal_(0, dim**-0.5)) for _ in range(2))
        self.score = score_for(score, dim, dim)
        self.memory = Attend(None, dim, None, align, dropout)

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Attended:
        if features.shape[-1] != self.keys.shape[-1]:
            raise ValueError(f"features has shape {tuple(features.shape)}, expected (..., n, {self.keys.shape[-1]}).")
        lead = features.shape[:-2]
        keep = open_keys(features, over)[..., None]
        keys, values = (x.to(features.dtype).expand(*lead, -1, -1) for x in (self.keys, self.values))
        scores = self.score(features.masked_fill(~keep, 0.0).unsqueeze(-3), keys.unsqueeze(-3)).squeeze(-3)
        if self.twice and scores.shape[-2]:
            closed = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
            scores = scores - torch.logsumexp(closed, -2, keepdim=True)
        return self.memory(None, keys, values, scores=scores)
