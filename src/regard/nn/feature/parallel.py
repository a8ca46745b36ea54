"""Parallel co-attention: both inputs are attended at once, by an affinity matrix of all pairs of positions."""

import torch
from torch import Tensor, nn

from regard.core.alignments import Alignment
from regard.core.arguments import checked
from regard.core.structures import Structure

from ..attend import Attend, ScoreLike, best
from ..call_checks import reads
from ..composed import Composed
from .affinity import Affinity


class ParallelCoAttention(nn.Module):
    """Weights of both inputs from the affinity of every pair of their positions.

        A = affinity(F_1, F_2)
        aggregated: e_1 = w_1 . tanh(W_1 F_1 + A W_2 F_2),   e_2 = w_2 . tanh(W_2 F_2 + A^T W_1 F_1)
        max: e_1i = max_j A_ij,   e_2j = max_i A_ij
        c_k = sum align(e_k) F_k,   out = [c_1; c_2] or c_1 + c_2

    first (..., n_1, first_dim), second (..., n_2, second_dim)  ->  out (..., first_dim + second_dim)
    maps: first, second, one row each

    score     "bilinear" (tanh(F_1 W F_2^T)), "trilinear", or any other: the affinity
    reading   "aggregated" or "max"
    combine   "concat", or "sum" for equal widths

    Also known as: co-attention.
    Lu et al. 2016; affinity and max of Seo et al. 2017. Fine: pairs are compared before pooling. With a
    bilinear affinity of 0 each input is attended query-free.
    """

    @checked
    def __init__(
        self,
        first_dim: int,
        second_dim: int | None = None,
        *,
        score: ScoreLike = "bilinear",
        align: "str | Alignment" = "softmax",
        reading: str = "aggregated",
        combine: str = "concat",
        width: int | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        second_dim = second_dim or first_dim
        if reading not in ("aggregated", "max"):
            raise ValueError(f'ParallelCoAttention(reading={reading!r}): expected "aggregated" or "max".')
        if combine not in ("concat", "sum"):
            raise ValueError(f'ParallelCoAttention(combine={combine!r}): expected "concat" or "sum".')
        if combine == "sum" and first_dim != second_dim:
            raise ValueError(
                f'combine="sum" adds two contexts, but first_dim={first_dim} and second_dim={second_dim}: '
                'make them equal, or use combine="concat".'
            )
        self.reading, self.combine = reading, combine
        self.affinity = Affinity(first_dim, second_dim, score)
        self.first = Attend(None, first_dim, None, align, dropout)
        self.second = Attend(None, second_dim, None, align, dropout)
        if reading == "aggregated":
            width = width or first_dim
            self.lin_first, self.lin_second = (nn.Linear(d, width, bias=False) for d in (first_dim, second_dim))
            self.out_first, self.out_second = nn.Linear(width, 1, bias=False), nn.Linear(width, 1, bias=False)

    @reads(first="first_dim", second=("second_dim", "first_dim"))
    def forward(
        self, first: Tensor, second: Tensor, over_first: Structure | None = None, over_second: Structure | None = None
    ) -> Composed:
        table, rows, columns = self.affinity(first, second, over_first, over_second)
        if self.reading == "max":
            e_first, e_second = best(table, columns), best(table.transpose(-1, -2), rows)
        else:
            one = self.lin_first(first.masked_fill(~rows[..., None], 0.0))
            two = self.lin_second(second.masked_fill(~columns[..., None], 0.0))
            e_first = self.out_first(torch.tanh(one + table @ two)).squeeze(-1)
            e_second = self.out_second(torch.tanh(two + table.transpose(-1, -2) @ one)).squeeze(-1)
        found = {
            "first": self.first(None, first, over=over_first, scores=e_first.unsqueeze(-2)),
            "second": self.second(None, second, over=over_second, scores=e_second.unsqueeze(-2)),
        }
        contexts = [step.out.squeeze(-2) for step in found.values()]
        return Composed(torch.cat(contexts, -1) if self.combine == "concat" else contexts[0] + contexts[1], found)


class AttentionFlow(nn.Module):
    """Attention in both directions without early pooling: one output for each position of the first input.

        A = affinity(F_1, F_2)
        u_i = sum_j align_j(A_ij) f_2j,   h = sum_i align_i(max_j A_ij) f_1i
        out_i = [f_1i; u_i; f_1i * u_i; f_1i * h]

    first (..., n_1, dim), second (..., n_2, dim)  ->  out (..., n_1, 4 dim)
    maps: second (a row for each position of the first), first (one row)

    Also known as: BiDAF, bidirectional attention flow.
    Seo et al. 2017 (BiDAF). Under softmax the term of a trilinear affinity in f_1 alone leaves every u_i unchanged.
    """

    @checked
    def __init__(
        self,
        dim: int,
        *,
        score: ScoreLike = "trilinear",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.affinity = Affinity(dim, dim, score)
        self.first = Attend(None, dim, None, align, dropout)
        self.second = Attend(None, dim, None, align, dropout)

    @reads(first="dim", second="dim")
    def forward(
        self, first: Tensor, second: Tensor, over_first: Structure | None = None, over_second: Structure | None = None
    ) -> Composed:
        table, rows, columns = self.affinity(first, second, over_first, over_second)
        to_second = self.second(None, second, over=over_second, scores=table)
        to_first = self.first(None, first, over=over_first, scores=best(table, columns).unsqueeze(-2))
        own = first.masked_fill(~rows[..., None], 0.0)
        u, h = to_second.out, to_first.out
        return Composed(torch.cat([own, u, own * u, own * h], -1), {"second": to_second, "first": to_first})
