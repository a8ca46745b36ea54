"""Scores: how well a query and a key match. One family a file; each class is also known by a name.

A score built without sizes is parameter-free, and that is what a name means: "additive" is Additive().
"""

from collections.abc import Callable

from .additive import GAT, Additive, GATv2
from .bias import EdgeBias, PairBias
from .dot import Dot, ScaledDot
from .general import ActivatedGeneral, BiasedGeneral, General
from .location import LearnedQuery, Location, LocationAware, QueryFree
from .modifiers import Activation, ALiBi, Clamp, Modified, Modifier, RelativeBias, Sink, SoftCap
from .rotary import Rotary
from .score import Lowered, Score
from .similarity import Content, Cosine, Gaussian, Laplace, LinearKernel, Trilinear

NAMES: dict[str, Callable[[], Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "biased_general": BiasedGeneral,
    "activated_general": ActivatedGeneral,
    "additive": Additive,
    "concat": Additive,
    "cosine": Cosine,
    "content": Content,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "trilinear": Trilinear,
    "query_free": QueryFree,
    "gat": GAT,
    "gatv2": GATv2,
    "linear_kernel": LinearKernel,
}
_NEED_SIZES = {
    "location": "Location(d_q, length)",
    "location_aware": "LocationAware(d_q)",
    "learned_query": "LearnedQuery(d_k)",
}
_made: dict[str, Score] = {name: make() for name, make in NAMES.items()}


def score_of(score: "str | Score") -> Score:
    """A score from its name (one shared, parameter-free object a name) or itself."""
    if isinstance(score, str):
        found = _made.get(score)
        if found is None:
            if score in _NEED_SIZES:
                raise ValueError(f"score={score!r} has no parameter-free form: pass {_NEED_SIZES[score]}.")
            raise ValueError(f"score={score!r} is unknown; expected one of {', '.join(NAMES)}, or a Score object.")
        return found
    if isinstance(score, Score):
        return score
    if isinstance(score, type):
        raise TypeError(f"score= got the class {score.__name__}: pass an object, {score.__name__}(...).")
    raise TypeError(f"score= got {type(score).__name__}, expected a name or a Score (a score of your own subclasses "
                    "regard.Score and defines forward(q, k)).")  # fmt: skip


__all__ = [
    "GAT",
    "NAMES",
    "ALiBi",
    "ActivatedGeneral",
    "Activation",
    "Additive",
    "BiasedGeneral",
    "Clamp",
    "Content",
    "Cosine",
    "Dot",
    "EdgeBias",
    "GATv2",
    "Gaussian",
    "General",
    "Laplace",
    "LearnedQuery",
    "LinearKernel",
    "Location",
    "LocationAware",
    "Lowered",
    "Modified",
    "Modifier",
    "PairBias",
    "QueryFree",
    "RelativeBias",
    "Rotary",
    "ScaledDot",
    "Score",
    "Sink",
    "SoftCap",
    "Trilinear",
    "score_of",
]
