"""Regard builds, runs, sees and judges attention: any score, any alignment, any structure, in PyTorch."""

from . import backends as _backends
from . import nn
from .core import alignments, scores
from .core.alignments import (
    Alignment, Entmax, Gumbel, Hard, Local, LocalPredictive, Monotonic, Reinforced, ReLU, Sigmoid, Softmax, Sparsemax,
    TopK, Uniform,
)  # fmt: skip
from .core.attend import Attended, Sample, attend
from .core.edges import Edges
from .core.errors import Refused
from .core.maps import AttentionMap
from .core.plan import Plan, plan
from .core.pyramid import Pyramid
from .core.scores import (
    GAT, ActivatedGeneral, Activation, Additive, ALiBi, BiasedGeneral, Content, Cosine, Dot, Gaussian, GATv2, General,
    Laplace, LearnedQuery, LinearKernel, Location, LocationAware, Modifier, QueryFree, RelativeBias, Rotary, ScaledDot,
    Score, Sink, SoftCap, Trilinear,
)  # fmt: skip
from .core.structures import Causal, Full, Mask, Padding, Segments, Structure, Window

__version__ = "0.1.0"

__all__ = [
    "ALiBi", "ActivatedGeneral", "Activation", "Additive", "Alignment", "Attended", "AttentionMap", "BiasedGeneral",
    "Causal", "Content", "Cosine", "Dot", "Edges", "Entmax", "Full", "GAT", "GATv2", "Gaussian", "General", "Gumbel",
    "Hard", "Laplace", "LearnedQuery", "LinearKernel", "Local", "LocalPredictive", "Location", "LocationAware", "Mask",
    "Modifier", "Monotonic", "Padding", "Plan", "Pyramid", "QueryFree", "ReLU", "Refused", "Reinforced",
    "RelativeBias", "Rotary", "Sample", "ScaledDot", "Score", "Segments", "Sigmoid", "Sink", "SoftCap", "Softmax",
    "Sparsemax", "Structure", "TopK", "Trilinear", "Uniform", "Window", "alignments", "attend", "nn", "plan", "scores",
]  # fmt: skip
