"""attend() as a module: a score and an alignment with parameters, without projections."""

from collections.abc import Callable
from copy import deepcopy
from typing import TypeAlias

import torch
from torch import Tensor, nn

from ..core.alignments import Alignment
from ..core.arguments import checked, shown
from ..core.attend import Attended, attend
from ..core.lowering.tiles import Tile
from ..core.scores import QueryFree, Score
from ..core.structures import Full, Structure, structure_of
from .build import build_alignment, build_score
from .call_checks import reads
from .precomputed import Given

ScoreLike: TypeAlias = str | Score | Callable[[int, int], Score]


class Attend(nn.Module):
    """Single-head attention without projections: the features are keys and values at once.

        c_i = sum_j w_ij v_j,   w_i = align_j score(q_i, k_j)

    query (..., n, d_q), keys (..., m, d_k), values (..., m, d_v), the keys unless given  ->  out (..., n, d_v)

    d_q     None without a query: the score is query-free, or the query is a learned constant of width d_k
    score   a name builds the learned form; a function (d_q, d_k) -> Score builds it; a Score object is copied, so that
            two steps of a composition never share parameters by accident. None: scores come with the call
    align   a name or an Alignment, which is copied too

    Brauwers and Frasincar 2021, eq. 1-4. In training mode stochastic alignments sample, and weights are dropped.
    """

    @checked
    def __init__(
        self,
        d_q: int | None,
        d_k: int,
        score: ScoreLike | None = "additive",
        align: "str | Alignment" = "softmax",
        dropout: float = 0.0,
    ):
        super().__init__()
        self.d_q, self.d_k, self.dropout = d_q, d_k, float(dropout)
        asked = d_k if d_q is None else d_q
        self.score = None if score is None else score_for(score, asked, d_k)
        self.align = alignment_for(align, asked, d_k)
        self.query: nn.Parameter | None = None
        if d_q is None and self.score is not None and not isinstance(self.score, QueryFree):
            self.query = nn.Parameter(torch.empty(d_k).uniform_(-(d_k**-0.5), d_k**-0.5))

    @reads(query=("d_q", "d_k"), keys="d_k", values=None)
    def forward(
        self,
        query: Tensor | None,
        keys: Tensor,
        values: Tensor | None = None,
        over: Structure | None = None,
        scores: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Attended:
        """query: None for a query-free score (one row). scores (..., n, m): for a module built with score=None.

        state: that of the previous step (`Attended.state`), for a decoder that runs step by step.
        """
        values = keys if values is None else values
        self._check(query, keys, scores)
        if query is None:
            rows = 1 if scores is None else scores.shape[-2]
            learned = keys.new_zeros(self.d_k) if self.query is None else self.query
            query = learned.to(keys.dtype).expand(*keys.shape[:-2], rows, -1)
        score = self.score
        if scores is not None:
            lead = scores.shape[:-2]
            score = Given(scores.reshape(lead.numel(), 1, *scores.shape[-2:]))
        assert score is not None
        q, k, v = query.unsqueeze(-3), keys.unsqueeze(-3), values.unsqueeze(-3)
        dropout = self.dropout if self.training else 0.0
        attended = attend(q, k, v, score, self.align, over, dropout=dropout, sample=self.training, state=state)
        return Attended(attended.out.squeeze(-3), attended.map, attended.sample, attended.state)

    def _check(self, query: Tensor | None, keys: Tensor, scores: Tensor | None) -> None:
        if not isinstance(keys, Tensor) or keys.ndim < 2 or keys.shape[-1] != self.d_k:
            given = tuple(keys.shape) if isinstance(keys, Tensor) else type(keys).__name__
            raise ValueError(f"features are {given}, expected a tensor (..., length, {self.d_k}).")
        told = isinstance(query, Tensor) and query.ndim >= 2 and query.shape[-1] == (self.d_q or self.d_k)
        if query is not None and not told:
            what = f"has shape {tuple(query.shape)}" if isinstance(query, Tensor) else f"is {shown(query)}"
            raise ValueError(
                f"query {what}, expected (..., queries, {self.d_q or self.d_k}). "
                "One query for each item is query[..., None, :]."
            )
        if (scores is None) == (self.score is None):
            raise ValueError("scores= needs a module built with score=None.")
        if query is None and self.d_q is not None:
            raise ValueError(
                f"This attention needs a query: pass one of shape (..., queries, {self.d_q}), or build "
                "it with d_q=None."
            )

    def extra_repr(self) -> str:
        return f"d_q={self.d_q}, d_k={self.d_k}" + (f", dropout={self.dropout}" if self.dropout else "")


def score_for(score: ScoreLike, d_q: int, d_k: int) -> Score:
    """The score of one step: by name, by a function of its widths, or a copy of an object."""
    if isinstance(score, str):
        return build_score(score, d_q, d_k)
    if isinstance(score, Score):
        return deepcopy(score)
    made = score(d_q, d_k) if callable(score) and not isinstance(score, type) else score
    if not isinstance(made, Score):
        raise TypeError(
            f"score= gave {type(made).__name__}, expected a name, a Score object or a function of "
            "(d_q, d_k) that returns one."
        )
    return made


def alignment_for(align: "str | Alignment", d_q: int, d_k: int) -> Alignment:
    if isinstance(align, str):
        return build_alignment(align, d_q, d_k)
    if isinstance(align, Alignment):
        return deepcopy(align)
    raise TypeError(f"align= got {type(align).__name__}, expected a name or an Alignment object.")


def mean(features: Tensor, over: Structure | None = None) -> Tensor:
    """Masked mean over keys, (..., m, d) -> (..., 1, d), 0 where all are masked: the query of many compositions."""
    keep = open_keys(features, over)[..., None]
    return features.masked_fill(~keep, 0.0).sum(-2, keepdim=True) / keep.sum(-2, keepdim=True).clamp_min(1)


def open_keys(features: Tensor, over: Structure | None) -> Tensor:
    """Which rows of features (..., m, d) a query may attend: bool (..., m)."""
    lead, m = features.shape[:-2], features.shape[-2]
    over = structure_of(over)
    shape = (lead.numel(), m)
    allowed = None
    if not isinstance(over, Full):
        fitted = over.fit(tuple(lead), 1, 1, m)
        allowed = fitted.allowed(Tile.whole(lead.numel(), 1, 1, m, features.device))
    if allowed is None:
        return torch.ones((*lead, m), dtype=torch.bool, device=features.device)
    return allowed[:, 0].expand(shape).reshape(*lead, m)


def best(table: Tensor, columns: Tensor) -> Tensor:
    """Masked row maximum, (..., r, c) and bool (..., c) -> (..., r); 0 where all columns are masked."""
    if table.shape[-1] == 0:
        return table.sum(-1)
    closed = ~columns[..., None, :]
    found = table.masked_fill(closed, torch.finfo(table.dtype).min).amax(-1)
    return found.masked_fill(closed.all(-1), 0.0)
