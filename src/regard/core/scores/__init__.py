"""Scores: how well a query and a key match. One family a file; each class is also known by a name.

A score built without sizes is parameter-free, and that is what a name means: "additive" is Additive().
A file in this folder with a class that says its name, class Canberra(Score, name="canberra"), is all that a new one
needs.
"""

from ..modifiers import (
    Activation,
    ALiBi,
    Clamp,
    EdgeBias,
    Modified,
    Modifier,
    PairBias,
    RelativeBias,
    Rotary,
    Sink,
    SoftCap,
)
from ..name_registry import read_folder
from .additive import GAT, Additive, GATv2
from .dot import Dot, ScaledDot
from .general import ActivatedGeneral, BiasedGeneral, General
from .location import LearnedQuery, Location, LocationAware, QueryFree
from .score import SCORES, Lowered, Score
from .similarity import Content, Cosine, Gaussian, Laplace, LinearKernel, Trilinear

read_folder(__name__, __path__)  # a file with a score in it is enlisted by lying here
NAMES: dict[str, type[Score]] = SCORES.free
_NEED_SIZES = {
    "location": "Location(d_q, length)",
    "location_aware": "LocationAware(d_q)",
    "learned_query": "LearnedQuery(d_k)",
}


def score_of(score: "str | Score") -> Score:
    """A score from its name (one shared, parameter-free object a name) or itself."""
    if isinstance(score, str):
        found = SCORES.shared(score)
        if found is None:
            if score in _NEED_SIZES:
                raise ValueError(f"score={score!r} has no parameter-free form: pass {_NEED_SIZES[score]}.")
            raise ValueError(f"score={score!r} is unknown; expected one of {', '.join(NAMES)}, or a Score object.")
        return found
    if isinstance(score, Score):
        return score
    if isinstance(score, type):
        raise TypeError(f"score= got the class {score.__name__}: pass an object, {score.__name__}(...).")
    raise TypeError(
        f"score= got {type(score).__name__}, expected a name or a Score (a score of your own subclasses "
        "regard.Score and defines forward(q, k))."
    )


__all__ = [
    "GAT",
    "NAMES",
    "SCORES",
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
for _kind in SCORES.pages:  # those that no line above imports
    if globals().setdefault(_kind.__name__, _kind) is _kind and _kind.__name__ not in __all__:
        __all__.append(_kind.__name__)
for _name in NAMES:  # made now: torch.compile meets them as they are
    SCORES.shared(_name)
