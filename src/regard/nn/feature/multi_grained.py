"""Multi-grained co-attention: coarse and fine attention between two inputs, in parallel."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked, shown
from regard.core.attend import Attended
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, best, mean
from ..call_checks import reads
from ..composed import Composed
from .affinity import Affinity
from .interactive import InteractiveCoAttention
from .parallel import ParallelCoAttention


class MultiGrainedCoAttention(nn.Module):
    """Two inputs attend each other by their means (coarse) and by every pair of positions (fine).

        survey: out = [interactive(F_1, F_2); parallel(F_1, F_2; A, max)]
        mgan: the fine context of F_2 is mean_i sum_j align_j(A_ij) f_2j instead

    first (..., n_1, dim), second (..., n_2, dim)  ->  out (..., 4 dim): coarse first, coarse second, fine first,
    fine second; maps by these names with _ between (fine_second has a row for each position of the first in mgan)

    score     the affinity, "trilinear" as in both sources, or any other
    coarse    the score of the coarse part: "activated_general" in the survey form, "general" in mgan, unless given
    form      "survey", or "mgan" with first = sentence and second = aspect

    Also known as: MGAN.
    Fan et al. 2018 (MGAN). Each quarter of the output is that of the mechanism alone with the same parameters.
    """

    @checked
    def __init__(
        self,
        dim: int,
        *,
        score: ScoreLike = "trilinear",
        coarse: ScoreLike | None = None,
        align: "str | Alignment" = "softmax",
        form: str = "survey",
        dropout: float = 0.0,
    ):
        super().__init__()
        if form not in ("survey", "mgan"):
            raise ValueError(f'MultiGrainedCoAttention(form={form!r}): expected "survey" or "mgan".')
        self.form = form
        if coarse is None:
            coarse = "activated_general" if form == "survey" else "general"
        try:
            self.coarse = InteractiveCoAttention(dim, dim, score=coarse, align=align, dropout=dropout)
        except (TypeError, ValueError) as error:
            raise type(error)(f"coarse={shown(coarse)}: {error}") from None
        self.fine = (
            ParallelCoAttention(dim, dim, score=score, align=align, reading="max", dropout=dropout)
            if form == "survey"
            else _Asymmetric(dim, score, align, dropout)
        )

    @reads(first="dim", second="dim")
    def forward(
        self, first: Tensor, second: Tensor, over_first: Structure | None = None, over_second: Structure | None = None
    ) -> Composed:
        coarse = self.coarse(first, second, over_first, over_second)
        fine = self.fine(first, second, over_first, over_second)
        steps: dict[str, Attended] = {f"coarse_{name}": step for name, step in coarse.steps.items()}
        steps |= {f"fine_{name}": step for name, step in fine.steps.items()}
        return Composed(torch.cat([coarse.out, fine.out], -1), steps)


class _Asymmetric(nn.Module):
    """MGAN's fine part: the sentence by its best match, the aspect by the mean context of the sentence's words."""

    def __init__(self, dim: int, score: ScoreLike, align: "str | Alignment", dropout: float):
        super().__init__()
        self.affinity = Affinity(dim, dim, score)
        self.first, self.second = (Attend(None, dim, None, align, dropout) for _ in range(2))

    def forward(
        self, first: Tensor, second: Tensor, over_first: Structure | None, over_second: Structure | None
    ) -> Composed:
        table, _, columns = self.affinity(first, second, over_first, over_second)
        one = self.first(None, first, over=over_first, scores=best(table, columns).unsqueeze(-2))
        two = self.second(None, second, over=over_second, scores=table)
        read = mean(two.out, over_first)
        return Composed(torch.cat([one.out, read], -1).squeeze(-2), {"first": one, "second": two})
