"""Four claims about graph attention, each as a test that can refute it."""

from collections.abc import Callable

from .adaptive import adaptive
from .claim import Claim, Curve, Panel
from .hetero import hetero
from .interpretability import interpret
from .long_range import reach

CLAIMS: dict[str, Callable[..., Claim]] = {
    "adaptive": adaptive,
    "interpret": interpret,
    "range": reach,
    "hetero": hetero,
}

__all__ = ["CLAIMS", "Claim", "Curve", "Panel", "adaptive", "hetero", "interpret", "reach"]
