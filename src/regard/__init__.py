"""Regard builds, runs, sees and judges attention: any score, any alignment, any structure, in PyTorch."""

import sys as _sys
from importlib import import_module as _import_module
from os.path import basename as _basename
from typing import TYPE_CHECKING

if _sys.argv[:1] == ["-m"] or _basename("".join(_sys.argv[:1])).startswith("regard"):
    from .cli import interrupts as _interrupts  # this may be the command: it handles Ctrl-C before torch is imported

    _interrupts.forget_current_folder()
    _interrupts.end_on_interrupt()

from . import alignments, scores
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
)
from .core.attend import Attended, Sample, attend
from .core.display import enlist_views as _enlist_views
from .core.errors import Refused
from .core.maps.attention_map import AttentionMap
from .core.maps.pyramid import Pyramid
from .core.plan import Plan, plan
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
)
from .core.structures import Causal, Full, Mask, Padding, Segments, Structure, Window
from .core.structures.edges import Edges

if TYPE_CHECKING:
    from . import derived, detectors, interventions, models, nn
    from .judging.judge import judge
    from .recording import Record, intervene, load, record
    from .studies import Study

_enlist_views(lambda: _import_module(".views", __name__))

__version__ = "0.1.0"

# Lazy imports: the package that has the name, "" where the name is a package itself.
_LAZY = {
    "Record": "recording",
    "intervene": "recording",
    "load": "recording",
    "record": "recording",
    "judge": "judging",
    "Study": "studies",
    "derived": "",
    "detectors": "",
    "interventions": "",
    "models": "",
    "nn": "",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    package = _import_module(f".{_LAZY[name] or name}", __name__)
    value = getattr(package, name) if _LAZY[name] else package
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
]
