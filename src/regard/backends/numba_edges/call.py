"""What the operators of edges-cpu are handed: tensors with gradients, and the settings of a call."""

from typing import NamedTuple

from torch import Tensor

# Activations of a pair, by their kernel: a leaky ReLU of some slope, or a tanh.
ACTS = {"leaky_relu": 0, "relu": 0, "identity": 0, "tanh": 1}


class GradientInputs(NamedTuple):
    """What a gradient may be asked of: a (g, n, w), b (g, m, w), v (g, m, d_v), readout (g, w), and by edge id key
    (g, E, w) and value (g, E, d_v)."""

    a: Tensor
    b: Tensor
    v: Tensor
    readout: Tensor | None
    key: Tensor | None
    value: Tensor | None


class Settings(NamedTuple):
    """kinds: the core (dot or an activation), the alignment, the join of the edges' keys, as one word each.

    numbers: slope; scale of a dot, or a readout that is the same everywhere; bias of the sigmoid; dropout.
    """

    heads: int
    top: int
    kinds: str
    numbers: list[float]
