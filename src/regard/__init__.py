"""Regard builds, runs, sees and judges attention: any score, any alignment, any structure, in PyTorch."""

from . import alignments, derived, detectors, interventions, models, nn, scores
from . import backends as _backends  # noqa: F401 enlists them
from .core.alignments import (
    Alignment,
    Entmax,
    Gumbel,
    Hard,
    Local,
    LocalPredictive,
    Monotonic,
    Reinforced,
    ReLU,
    Sigmoid,
    Softmax,
    Sparsemax,
    TopK,
    Uniform,
)  # fmt: skip
from .core.attend import Attended, Sample, attend
from .core.edges import Edges
from .core.errors import Refused
from .core.maps import AttentionMap
from .core.plan import Plan, plan
from .core.pyramid import Pyramid
from .core.scores import (
    GAT,
    ActivatedGeneral,
    Activation,
    Additive,
    ALiBi,
    BiasedGeneral,
    Clamp,
    Content,
    Cosine,
    Dot,
    EdgeBias,
    GATv2,
    Gaussian,
    General,
    Laplace,
    LearnedQuery,
    LinearKernel,
    Location,
    LocationAware,
    Modifier,
    PairBias,
    QueryFree,
    RelativeBias,
    Rotary,
    ScaledDot,
    Score,
    Sink,
    SoftCap,
    Trilinear,
)  # fmt: skip
from .core.structures import Causal, Full, Mask, Padding, Segments, Structure, Window
from .judging import judge
from .recording import Record, intervene, load, record

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Study":  # pydantic and SQLAlchemy are asked for only by those who study
        from .studies import Study

        return Study
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


__all__ = [
    "GAT",
    "ALiBi",
    "ActivatedGeneral",
    "Activation",
    "Additive",
    "Alignment",
    "Attended",
    "AttentionMap",
    "BiasedGeneral",
    "Causal",
    "Clamp",
    "Content",
    "Cosine",
    "Dot",
    "EdgeBias",
    "Edges",
    "Entmax",
    "Full",
    "GATv2",
    "Gaussian",
    "General",
    "Gumbel",
    "Hard",
    "Laplace",
    "LearnedQuery",
    "LinearKernel",
    "Local",
    "LocalPredictive",
    "Location",
    "LocationAware",
    "Mask",
    "Modifier",
    "Monotonic",
    "Padding",
    "PairBias",
    "Plan",
    "Pyramid",
    "QueryFree",
    "ReLU",
    "Record",
    "Refused",
    "Reinforced",
    "RelativeBias",
    "Rotary",
    "Sample",
    "ScaledDot",
    "Score",
    "Segments",
    "Sigmoid",
    "Sink",
    "SoftCap",
    "Softmax",
    "Sparsemax",
    "Structure",
    "Study",
    "TopK",
    "Trilinear",
    "Uniform",
    "Window",
    "alignments",
    "attend",
    "derived",
    "detectors",
    "intervene",
    "interventions",
    "judge",
    "load",
    "models",
    "nn",
    "plan",
    "record",
    "scores",
]  # fmt: skip
