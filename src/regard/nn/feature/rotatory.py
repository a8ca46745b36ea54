"""Rotatory attention: a target and its left and right context attend each other in turn."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.attend import Attended
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, mean
from ..call_checks import reads
from ..composed import Composed


class RotatoryAttention(nn.Module):
    """The target is the query over its left and right context; each result is the query over the target.

        r_t = mean F_t,   r_l = Att_l(r_t, F_l),   r_r = Att_r(r_t, F_r)
        r_lt = Att_lt(r_l, F_t),   r_rt = Att_rt(r_r, F_t),   out = [r_l; r_r; r_lt; r_rt]

    target (..., n_t, target_dim), left (..., n_l, left_dim), right (..., n_r, right_dim)
    ->  out (..., left_dim + right_dim + 2 target_dim)
    maps: left, right, left_target, right_target, one row each: the last hop's; those of earlier hops are left_1, ...

    hops      repeats: the query over the left context in hop s is r_lt of hop s - 1, over the right r_rt
    tied      one set of parameters for all hops
    inverse   contexts are pooled first and query the target, whose results query the contexts

    Also known as: LCR-Rot.
    Zheng and Xia 2018 (LCR-Rot); hops: Wallaart and Frasincar 2019. An empty context gives 0, and as a query
    it gives the mean of the target (activated general score). Swapping left and right with their parameters swaps
    halves.
    """

    @checked
    def __init__(
        self,
        target_dim: int,
        left_dim: int | None = None,
        right_dim: int | None = None,
        *,
        score: ScoreLike = "activated_general",
        align: "str | Alignment" = "softmax",
        hops: int = 1,
        tied: bool = False,
        inverse: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        if not isinstance(hops, int) or hops < 1:
            raise ValueError(f"RotatoryAttention(hops={hops!r}): expected a whole number, 1 or more.")
        left_dim, right_dim = left_dim or target_dim, right_dim or target_dim
        self.hops, self.inverse = hops, inverse
        turns = [
            nn.ModuleDict(
                {
                    "left": Attend(target_dim, left_dim, score, align, dropout),
                    "right": Attend(target_dim, right_dim, score, align, dropout),
                    "left_target": Attend(left_dim, target_dim, score, align, dropout),
                    "right_target": Attend(right_dim, target_dim, score, align, dropout),
                }
            )
            for _ in range(1 if tied else hops)
        ]
        self.turns = nn.ModuleList(turns)

    @reads(target="target_dim", left=("left_dim", "target_dim"), right=("right_dim", "target_dim"))
    def forward(
        self,
        target: Tensor,
        left: Tensor,
        right: Tensor,
        over_target: Structure | None = None,
        over_left: Structure | None = None,
        over_right: Structure | None = None,
    ) -> Composed:
        places = {
            "left": (left, over_left),
            "right": (right, over_right),
            "left_target": (target, over_target),
            "right_target": (target, over_target),
        }
        inner, outer = ("left_target", "right_target"), ("left", "right")
        if self.inverse:
            inner, outer = outer, inner
            asks = [mean(left, over_left), mean(right, over_right)]
        else:
            asks = [mean(target, over_target)] * 2
        steps: dict[str, Attended] = {}
        for hop in range(self.hops):
            turn: nn.ModuleDict = self.turns[hop % len(self.turns)]  # type: ignore[assignment]
            for names in (outer, inner):
                for side, name in enumerate(names):
                    features, over = places[name]
                    found = turn[name](asks[side], features, over=over)
                    steps[name if hop + 1 == self.hops else f"{name}_{hop + 1}"] = found
                    asks[side] = found.out
        read = [steps[name].out for name in places]
        return Composed(torch.cat(read, -1).squeeze(-2), steps)
