"""How kernels know an alignment and a core: declared by each class once, read by every backend that has kernels.

    w_ij = g_ij f(s_ij - tau_i)          an alignment: f, and which keys of a row it runs over
    act(x) = linear x + bend |x|         an activation of pairs that is straight on both sides of 0; or tanh, or -x^2/2

A class without a form runs on the backends that have no kernels. The numbers are those of the kernels' constants.
"""

from typing import NamedTuple

EXPONENTIAL, SIGMOID, POSITIVE_PART, SQUARE, POWER = range(5)  # f; the last three with tau the root of sum_j w_ij = 1
ALL_KEYS, BEST_KEYS, ONE_KEY = range(3)  # the keys of a row that may weigh something
DOT, TANH, KINKED, ABSOLUTE, HALF_SQUARE = range(5)  # slope at 0: KINKED that of the negative side, ABSOLUTE none


class AlignmentForm(NamedTuple):
    """An alignment as kernels know it.

    family: by this a backend says which it runs, and a refusal which those are.
    """

    family: str
    function: int
    alpha: float = 1.0  # of POSITIVE_PART, SQUARE and POWER: f(x) = [(alpha - 1) x]_+ ^ (1 / (alpha - 1))
    bias: float | None = None  # of SIGMOID; None is -log of the number of keys
    keys: int = ALL_KEYS
    top: int = 0  # keys of a row, of BEST_KEYS
    temperature: float | None = None  # of scores with Gumbel noise


class CoreForm(NamedTuple):
    """A core as kernels know it: s_ij = scale a_i . b_j, or sum_w readout_w act(a_iw + b_jw)."""

    code: int
    linear: float = 0.0
    bend: float = 0.0
    slope: float = 0.0  # of KINKED, of the negative side


ACTIVATIONS = {
    "tanh": CoreForm(TANH),
    "relu": CoreForm(KINKED, 0.5, 0.5, 0.0),
    "identity": CoreForm(KINKED, 1.0, 0.0, 1.0),
    "abs": CoreForm(ABSOLUTE, 0.0, 1.0),
    "negative_abs": CoreForm(ABSOLUTE, 0.0, -1.0),
    "negative_half_square": CoreForm(HALF_SQUARE),
}


def activation_form(name: str, slope: float = 0.0) -> CoreForm | None:
    """Of a pair with this activation; None where kernels have no code for it."""
    if name == "leaky_relu":
        return CoreForm(KINKED, (1 + slope) / 2, (1 - slope) / 2, slope)
    return ACTIVATIONS.get(name)


def listed(names: "tuple[str, ...] | list[str]") -> str:
    """As a sentence says them: "softmax, top-k and sigmoid"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
