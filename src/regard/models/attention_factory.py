"""The attention part of a task model by one name, its ablations included."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ..core import scores
from ..core.alignments import Local, Uniform
from ..core.attend import Attended, attend
from ..core.scores import Score
from ..core.structures import Structure
from ..nn.attend import Attend
from ..nn.attention import Attention
from ..nn.query import MultiHopAttention
from .attention_spec import way_of
from .features.encoded import Encoded


def look(name: str, d_q: int, d_k: int) -> Any:
    """The attention part of that name (`way_of`), for queries of width d_q and features of width d_k; None for none."""
    way = way_of(name)
    if way.score == "none":
        return None
    if way.score == "mean":
        return MeanPooling()
    if way.hops > 1:
        return Hops(MultiHopAttention(d_q, d_k, way.hops, score=way.score, align=way.alignment))
    if way.heads > 1:
        return Attention(d_q, way.heads, key_dim=d_k, out_dim=d_k, score=way.score, align=way.alignment)
    score = by_feature(way.score) if way.features else way.score
    return Attend(d_q, d_k, score, way.alignment)


def by_feature(name: str) -> Callable[[int, int], Score]:
    """A score of that name with one number for each of d_k features."""
    if name in ("additive", "concat"):
        return lambda d_q, d_k: scores.Additive(d_q, d_k, features=d_k)
    if name == "general":
        return lambda d_q, d_k: scores.General(d_q, d_k, features=d_k)
    if name == "gaussian":
        return lambda d_q, d_k: scores.Gaussian(learned=True, features=True)
    kind = {"dot": scores.Dot, "scaled_dot": scores.ScaledDot, "laplace": scores.Laplace}[name]
    return lambda d_q, d_k: kind(features=True)


class MeanPooling(nn.Module):
    """The mean of what is open, whoever asks: no parameters. Uniform weights, and a map that says so."""

    score, align = scores.Dot(), Uniform()

    def forward(self, query: Tensor, keys: Tensor, over: Structure | None = None) -> Attended:
        nobody = keys.new_zeros(*query.shape[:-1], keys.shape[-1])
        found = attend(nobody.unsqueeze(-3), keys.unsqueeze(-3), keys.unsqueeze(-3), self.score, self.align, over)
        return Attended(found.out.squeeze(-3), found.map)


class Hops(nn.Module):
    """Several hops as one look: what the last of them read, and its map."""

    def __init__(self, hops: MultiHopAttention):
        super().__init__()
        self.hops = hops

    @property
    def score(self) -> Any:
        return self.hops.looks[-1].score

    @property
    def align(self) -> Any:
        return self.hops.looks[-1].align

    def forward(self, query: Tensor, keys: Tensor, over: Structure | None = None) -> Attended:
        found = self.hops(query, keys, over)
        last = list(found.steps.values())[-1]
        return Attended(found.out, last.map, last.sample)


def look_at(attention: Any, query: Tensor, seen: Encoded, state: Tensor | None = None) -> Attended:
    """query (B, m, d_q) -> context (B, m, d) and its map, by nn.Attend, nn.Attention or whatever is called as they are.

    Without attention everybody gets the summary of the feature model (its last states), else the mean, and the map is
    None. state: what a stepwise mechanism handed on.
    """
    if attention is None:
        if seen.values.shape[0] != seen.items:
            raise ValueError("attention 'none' has no summary of a graph; 'uniform' is the mean of its nodes.")
        whole = seen.mean() if seen.summary is None else seen.summary
        return Attended(whole[:, None].expand(-1, query.shape[1], -1), None)  # type: ignore[arg-type]
    handed = {} if state is None or not stepwise(attention) else {"state": state}
    asked = query.to(seen.values.dtype)  # under autocast a state and what it looks at may differ
    found: Attended = attention(asked, seen.values, over=seen.over, **handed)
    return found


def by_row(attention: Any) -> bool:
    """Whether it matters which row a query stands in, so that one step cannot be asked alone."""
    return isinstance(getattr(attention, "align", None), Local)


def stepwise(attention: Any) -> bool:
    """Whether a step needs what the step before handed on."""
    return bool(attention.score.stepwise or attention.align.stepwise)
