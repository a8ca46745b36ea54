"""The four claims made for graph attention, each as a test that can come out against it."""

from collections.abc import Callable

from .adaptive import adaptive
from .claim import Claim, Curve, Panel
from .hetero import hetero
from .interpret import interpret
from .reach import reach

CLAIMS: dict[str, Callable[..., Claim]] = {
    "adaptive": adaptive,
    "interpret": interpret,
    "range": reach,
    "hetero": hetero,
}

__all__ = ["CLAIMS", "Claim", "Curve", "Panel", "adaptive", "hetero", "interpret", "reach"]
