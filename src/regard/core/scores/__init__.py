"""Scores: how well a query and a key match. One family a file; each class is also known by a name.

A score built without sizes is parameter-free, and that is what a name means: "additive" is Additive().
A file in this folder with a class that says its name, class Canberra(Score, name="canberra"), is all that a new one
needs.
"""

from torch import Tensor

from ..modifiers import (
    FIRE,
    Activation,
    ALiBi,
    Clamp,
    EdgeBias,
    ForgettingGate,
    GridRotary,
    Kerple,
    Modified,
    Modifier,
    PairBias,
    RelativeBias,
    Rotary,
    Sink,
    SoftCap,
    T5Bias,
)
from ..name_registry import call_of, read_folder
from .additive import GAT, Additive, GATv2
from .contextual import CoPE
from .convolved import ConvolvedDot
from .dot import Dot, ScaledDot
from .general import ActivatedGeneral, BiasedGeneral, General
from .location import LearnedQuery, Location, LocationAware, QueryFree
from .score import SCORES, Lowered, Score
from .similarity import Content, Cosine, Gaussian, Laplace, LinearKernel, Trilinear

read_folder(__name__, __path__)  # a file with a score in it is enlisted by lying here
NAMES: dict[str, type[Score]] = SCORES.free


_BUILT_BY_A_LENGTH = {"location": Location}


def score_of(score: "str | Score | Modifier") -> Score:
    """A score from its name (one shared, parameter-free object a name) or itself; a modifier is one of scaled dot."""
    if isinstance(score, str):
        found = SCORES.shared(score)
        if found is None:
            own = SCORES.own_name(score)
            built = SCORES.built.get(own) or _BUILT_BY_A_LENGTH.get(own)
            if built is not None:
                raise ValueError(f"score={score!r} has no parameter-free form: pass {call_of(built)}.")
            raise SCORES.unknown("score", score, NAMES, "a Score object")
        return found
    if isinstance(score, Score):
        return score
    if isinstance(score, Modifier):
        return ScaledDot() | score
    if isinstance(score, Tensor):
        raise TypeError(
            "score= got a tensor: the fourth argument of attend is the score. A mask is over=Mask(keep=mask), where "
            "True means that a pair may meet; a bias is score=ScaledDot() | PairBias(bias)."
        )
    if isinstance(score, type):
        raise TypeError(f"score= got the class {score.__name__}: pass an object, {score.__name__}(...).")
    hint = "; leave it out for the scaled dot product" if score is None else ""
    raise TypeError(
        f"score= got {type(score).__name__}, expected a name or a Score (a score of your own subclasses "
        f"regard.Score and defines forward(q, k)){hint}."
    )


__all__ = [
    "FIRE",
    "GAT",
    "NAMES",
    "SCORES",
    "ALiBi",
    "ActivatedGeneral",
    "Activation",
    "Additive",
    "BiasedGeneral",
    "Clamp",
    "CoPE",
    "Content",
    "ConvolvedDot",
    "Cosine",
    "Dot",
    "EdgeBias",
    "ForgettingGate",
    "GATv2",
    "Gaussian",
    "General",
    "GridRotary",
    "Kerple",
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
    "T5Bias",
    "Trilinear",
    "score_of",
]
for _kind in SCORES.pages:  # those that no line above imports
    if globals().setdefault(_kind.__name__, _kind) is _kind and _kind.__name__ not in __all__:
        __all__.append(_kind.__name__)
for _name in NAMES:  # made now: torch.compile meets them as they are
    SCORES.shared(_name)
