"""What is joined to a score with |: soft cap, ALiBi, biases, sinks; and rotary position embedding."""

from .modifier import Modified, Modifier
from .pair_bias import EdgeBias, PairBias
from .pointwise import Activation, Clamp, SoftCap
from .positional_bias import ALiBi, RelativeBias
from .rotary import Rotary
from .sink import Sink

__all__ = [
    "ALiBi",
    "Activation",
    "Clamp",
    "EdgeBias",
    "Modified",
    "Modifier",
    "PairBias",
    "RelativeBias",
    "Rotary",
    "Sink",
    "SoftCap",
]
