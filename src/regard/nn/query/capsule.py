"""Capsule-based attention: a learned query for each class."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.scores import QueryFree
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike
from ..call_checks import reads
from ..composed import Composed


class CapsuleAttention(nn.Module):
    """A query, a probability and a reconstruction for each class; only the true class should reconstruct the input.

        c_y = sum_l align_l(score(q_y, f_l)) f_l,   p_y = sigmoid(w_y . c_y + b_y)
        r_y = p_y c_y,   similarity_y = r_y . mean F

    features (..., n, dim)  ->  out = p (..., classes), not normalised over classes
    maps: capsules (..., 1, classes, n), mean (uniform, one row)

    Wang et al. 2018 (RNN-Capsule); no routing. A class's own p gives no gradient to another class's query.
    """

    @checked
    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        score: ScoreLike = "dot",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        bound = dim**-0.5
        self.queries = nn.Parameter(torch.empty(classes, dim).uniform_(-bound, bound))
        self.weight = nn.Parameter(torch.empty(classes, dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.capsules = Attend(dim, dim, score, align, dropout)
        self.whole = Attend(None, dim, QueryFree(), "uniform")

    @reads(features="dim")
    def forward(self, features: Tensor, over: Structure | None = None) -> Composed:
        query = self.queries.to(features.dtype).expand(*features.shape[:-2], -1, -1)
        found = self.capsules(query, features, over=over)
        chance = torch.sigmoid((found.out * self.weight).sum(-1) + self.bias)
        return Composed(chance, {"capsules": found, "mean": self.whole(None, features, over=over)})

    @staticmethod
    def similarity(found: Composed) -> Tensor:
        """How well each class reconstructs the mean of the input, r_y . mean F, (..., classes)."""
        rebuilt = found.out[..., None] * found.steps["capsules"].out
        return (rebuilt * found.steps["mean"].out).sum(-1)

    @classmethod
    def loss(cls, found: Composed, target: Tensor, form: str = "hinge") -> Tensor:
        """Of probabilities and of similarities, the mean over items; target (...) class numbers.

        hinge    max(0, 1 + sum_y t_y p_y) + the same of similarities, t_y = -1 for the true class, else 1 (paper)
        margin   mean_y max(0, 1 - p_true + p_y) over wrong y, divided by classes (the authors' code)
        """
        if form not in ("hinge", "margin"):
            raise ValueError(f'CapsuleAttention.loss(form={form!r}): expected "hinge" or "margin".')
        classes, target = found.out.shape[-1], target.reshape(-1)
        both = [x.reshape(-1, classes) for x in (found.out, cls.similarity(found))]
        if form == "margin":
            return F.multi_margin_loss(both[0], target) + F.multi_margin_loss(both[1], target)
        sign = 1.0 - 2.0 * F.one_hot(target, classes).to(found.out.dtype)
        return sum(torch.relu(1 + (sign * x).sum(-1)).mean() for x in both)  # type: ignore[return-value]
