"""The attention part of a task model by one name, its ablations included."""

from typing import Any

from torch import Tensor

from ..core.alignments import Local
from ..core.attend import Attended
from ..nn.attend import Attend
from ..nn.build import SCORES
from .features.seen import Seen

ALONE = ("uniform", "hard", "gumbel", "reinforced", "sparsemax", "entmax15", "local", "local_predictive", "monotonic")


def look(name: str, d_q: int, d_k: int) -> Attend | None:
    """The attention part of that name, for queries of width d_q and features of width d_k.

    a score             additive, dot, scaled_dot, general, cosine, ...: with softmax
    an alignment        uniform, hard, sparsemax, local, ...: with the additive score
    score+alignment     general+local_predictive, dot+entmax15
    none                None: no attention
    """
    if name == "none":
        return None
    score, _, align = name.partition("+")
    if not align and score in ALONE:
        score, align = "additive", score
    if score not in SCORES:
        raise ValueError(f"attention {name!r}: expected none, a score ({', '.join(SCORES)}), an alignment "
                         f"({', '.join(ALONE)}), or both joined by +, such as general+local_predictive.")  # fmt: skip
    return Attend(d_q, d_k, score, align or "softmax")


def look_at(attention: Any, query: Tensor, seen: Seen, state: Tensor | None = None) -> Attended:
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
