"""Builds the attention part of a task model, or an ablation of it, from a name."""

from typing import Any

from torch import Tensor, nn

from ..core import scores
from ..core.alignments import Local, Uniform
from ..core.attend import Attended, attend
from ..core.structures import Structure
from ..nn.attend import Attend
from ..nn.attention import Attention
from ..nn.query import MultiHopAttention
from .attention_spec import SCORES, parse_attention
from .features.encoded import Encoded


def build_attention(name: str, d_q: int, d_k: int) -> Any:
    """The attention module of that name (`parse_attention`), for queries of width d_q, features of width d_k."""
    spec = parse_attention(name)
    if spec.score == "none":
        return None
    if spec.score == "mean":
        return MeanPooling()
    if spec.hops > 1:
        return Hops(MultiHopAttention(d_q, d_k, spec.hops, score=spec.score, align=spec.alignment))
    if spec.heads > 1:
        return Attention(d_q, spec.heads, key_dim=d_k, out_dim=d_k, score=spec.score, align=spec.alignment)
    score = SCORES[spec.score].built_by_feature if spec.features else spec.score
    return Attend(d_q, d_k, score, spec.alignment)


class MeanPooling(nn.Module):
    """Mean pooling over unmasked keys: no parameters, uniform weights."""

    score, align = scores.Dot(), Uniform()

    def forward(self, query: Tensor, keys: Tensor, over: Structure | None = None) -> Attended:
        no_query = keys.new_zeros(*query.shape[:-1], keys.shape[-1])
        attended = attend(no_query.unsqueeze(-3), keys.unsqueeze(-3), keys.unsqueeze(-3), self.score, self.align, over)
        return Attended(attended.out.squeeze(-3), attended.map)


class Hops(nn.Module):
    """Multi-hop attention with the interface of one attention: the output and the map of the last hop."""

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


def apply_attention(attention: Any, query: Tensor, encoded: Encoded, state: Tensor | None = None) -> Attended:
    """query (B, m, d_q) -> context (B, m, d) and its map, by nn.Attend, nn.Attention or a module called alike.

    Without attention every query gets the summary of the feature model (its last states), else the mean, and the map is
    None. state: `Attended.state` of the previous step.
    """
    if attention is None:
        if encoded.values.shape[0] != encoded.items:
            raise ValueError("attention 'none' has no summary of a graph; 'uniform' is the mean of its nodes.")
        whole = encoded.mean() if encoded.summary is None else encoded.summary
        return Attended(whole[:, None].expand(-1, query.shape[1], -1), None)  # type: ignore[arg-type]
    handed = {} if state is None or not stepwise(attention) else {"state": state}
    asked = query.to(encoded.values.dtype)  # under autocast the dtypes of queries and keys may differ
    found: Attended = attention(asked, encoded.values, over=encoded.over, **handed)
    return found


def by_row(attention: Any) -> bool:
    """Whether the alignment depends on the position of the query, so that steps cannot be computed separately."""
    return isinstance(getattr(attention, "align", None), Local)


def stepwise(attention: Any) -> bool:
    """Whether a step depends on the state of the previous step."""
    return bool(attention.score.stepwise or attention.align.stepwise)
