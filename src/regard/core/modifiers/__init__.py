"""Modifiers of scores, joined with |: soft cap, ALiBi, biases, sinks; and rotary position embedding."""

from .fire import FIRE
from .forgetting import ForgettingGate
from .kerple import Kerple
from .modifier import Modified, Modifier
from .pair_bias import EdgeBias, PairBias, SharedPairBias
from .pointwise import Activation, Clamp, SoftCap
from .positional_bias import ALiBi, RelativeBias
from .rotary import GridRotary, Rotary
from .sink import Sink
from .t5_bias import T5Bias

__all__ = [
    "FIRE",
    "ALiBi",
    "Activation",
    "Clamp",
    "EdgeBias",
    "ForgettingGate",
    "GridRotary",
    "Kerple",
    "Modified",
    "Modifier",
    "PairBias",
    "RelativeBias",
    "Rotary",
    "SharedPairBias",
    "Sink",
    "SoftCap",
    "T5Bias",
]
