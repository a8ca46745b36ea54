"""From a name to a mechanism with parameters: what `nn.Attention` makes of score="additive"."""

from collections.abc import Callable

from ..core import scores
from ..core.alignments import NAMES as ALIGNMENTS
from ..core.alignments import Alignment, LocalPredictive, Reinforced, alignment_of
from ..core.scores import Score

SCORES: dict[str, Callable[[int, int, int], Score]] = {
    "dot": lambda d_q, d_k, heads: scores.Dot(),
    "scaled_dot": lambda d_q, d_k, heads: scores.ScaledDot(),
    "general": lambda d_q, d_k, heads: scores.General(d_q, d_k, heads=heads),
    "biased_general": lambda d_q, d_k, heads: scores.BiasedGeneral(d_q, d_k, heads=heads),
    "activated_general": lambda d_q, d_k, heads: scores.ActivatedGeneral(d_q, d_k, heads=heads),
    "additive": lambda d_q, d_k, heads: scores.Additive(d_q, d_k, heads=heads),
    "concat": lambda d_q, d_k, heads: scores.Additive(d_q, d_k, heads=heads),
    "cosine": lambda d_q, d_k, heads: scores.Cosine(),
    "content": lambda d_q, d_k, heads: scores.Content(d_q, heads=heads),
    "gaussian": lambda d_q, d_k, heads: scores.Gaussian(width=d_k**0.25, learned=True, heads=heads),
    "laplace": lambda d_q, d_k, heads: scores.Laplace(width=d_k**0.5),
    "trilinear": lambda d_q, d_k, heads: scores.Trilinear(d_k, heads=heads),
    "query_free": lambda d_q, d_k, heads: scores.QueryFree(d_k, heads=heads),
    "learned_query": lambda d_q, d_k, heads: scores.LearnedQuery(d_k, heads=heads),
    "location_aware": lambda d_q, d_k, heads: scores.LocationAware(d_q, d_k, heads=heads),
    "gat": lambda d_q, d_k, heads: scores.GAT(d_k, heads=heads),
    "gatv2": lambda d_q, d_k, heads: scores.GATv2(d_k, heads=heads),
    "linear_kernel": lambda d_q, d_k, heads: scores.LinearKernel(),
}
# Scores that join a query and a key coordinate by coordinate: both must have one width.
_SAME_WIDTH = {"dot", "scaled_dot", "cosine", "content", "gaussian", "laplace", "trilinear", "gatv2", "linear_kernel"}


def build_score(name: str, d_q: int, d_k: int, heads: int = 1) -> Score:
    """The score of that name for queries of width d_q and keys of width d_k, with parameters of its own for each head.

    Where `attend` takes a name for the parameter-free form ("additive": W = I), this is the learned one:
    Additive(d_q, d_k, heads=heads). Widths of distances are set so that scores of unit-variance vectors vary as
    little as those of scaled dot (Gaussian d_k^(1/4), learned from there; Laplace d_k^(1/2)).
    """
    if name == "location":
        raise ValueError(f'score="location" has a row for each position: pass Location({d_q}, length, heads={heads}).')
    if name not in SCORES:
        raise ValueError(f"score={name!r} is unknown; expected one of {', '.join(SCORES)}, or a Score object.")
    if d_q != d_k and name in _SAME_WIDTH:
        raise ValueError(f"score={name!r} compares queries and keys of one width, given d_q={d_q} and d_k={d_k}. "
                         '"general" and "additive" take two.')  # fmt: skip
    return SCORES[name](d_q, d_k, heads)


def build_alignment(name: str, d_q: int, d_k: int, heads: int = 1) -> Alignment:
    """The alignment of that name, a fresh object; local_predictive and reinforced get their networks."""
    if name == "local_predictive":
        return LocalPredictive(d_q=d_q, heads=heads)
    if name == "reinforced":
        return Reinforced(d_k)
    if name in ALIGNMENTS:
        return ALIGNMENTS[name]()
    return alignment_of(name)  # refuses, and says what to type
