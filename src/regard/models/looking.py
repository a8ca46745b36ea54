"""The attention part of a task model by one name, its ablations included."""

import torch
from torch import Tensor, nn

from ..core.alignments import Alignment
from ..core.attend import Attended, attend
from ..core.scores import Score
from ..nn.build import SCORES, build_alignment, build_score
from .features.seen import Seen

ALONE = ("uniform", "hard", "gumbel", "reinforced", "sparsemax", "entmax15", "local", "local_predictive", "monotonic")


class Look(nn.Module):
    """Attention on the features as they are: keys and values are the features, with no projections of their own.

        c = sum_j w_j f_j,   w = align(score(q, f_j))

    query (B, m, d_q), features (B, n, d)  ->  out (B, m, d), and the map (B, 1, m, n)

    The survey's W_K = W_V = I. In training mode alignments that can draw do.
    """

    def __init__(self, score: Score, align: Alignment):
        super().__init__()
        self.score, self.align = score, align

    def forward(self, query: Tensor, seen: Seen, state: Tensor | None = None) -> Attended:
        k = seen.values[:, None]
        ran = attend(query[:, None], k, k, self.score, self.align, seen.over, sample=self.training, state=state)
        return Attended(ran.out[:, 0], ran.map, ran.sample, ran.state)


class Heads(nn.Module):
    """nn.Attention as the attention part: projections and heads, then the features of width out_dim."""

    def __init__(self, attention: nn.Module):
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, seen: Seen, state: Tensor | None = None) -> Attended:
        found: Attended = self.attention(query, seen.values, over=seen.over, state=state)
        return found


class Nothing(nn.Module):
    """No attention: everybody gets the summary of the feature model (its last states), else the mean. No map."""

    def forward(self, query: Tensor, seen: Seen, state: Tensor | None = None) -> Attended:
        if seen.values.shape[0] != seen.items:
            raise ValueError("attention 'none' has no summary of a graph; 'uniform' is the mean of its nodes.")
        whole = seen.mean() if seen.summary is None else seen.summary
        return Attended(whole[:, None].expand(-1, query.shape[1], -1), None)  # type: ignore[arg-type]


def look(name: str, d_q: int, d_k: int) -> nn.Module:
    """The attention part of that name, for queries of width d_q and features of width d_k.

    a score             additive, dot, scaled_dot, general, cosine, ...: with softmax
    an alignment        uniform, hard, sparsemax, local, ...: with the additive score
    score+alignment     general+local_predictive, dot+entmax15
    none                no attention: the summary of the feature model
    """
    if name == "none":
        return Nothing()
    score, _, align = name.partition("+")
    if not align and score in ALONE:
        score, align = "additive", score
    if score not in SCORES:
        raise ValueError(f"attention {name!r}: expected none, a score ({', '.join(SCORES)}), an alignment "
                         f"({', '.join(ALONE)}), or both joined by +, such as general+local_predictive.")  # fmt: skip
    return Look(build_score(score, d_q, d_k), build_alignment(align or "softmax", d_q, d_k))


def by_row(part: nn.Module) -> bool:
    """Whether it matters which row a query stands in, so that one step cannot be asked alone."""
    from ..core.alignments import Local

    return isinstance(part, Look) and isinstance(part.align, Local)


def stepwise(part: nn.Module) -> bool:
    """Whether a step needs what the step before handed on."""
    return isinstance(part, Look) and (part.score.stepwise or part.align.stepwise)


def reordered(state: Tensor | None, index: Tensor) -> Tensor | None:
    return None if state is None else torch.index_select(state, 0, index)
