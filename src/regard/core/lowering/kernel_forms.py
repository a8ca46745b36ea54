"""Kernel forms of the parts of a plan: declared by each class (`kernel_form`), read by every backend.

    w_ij = g_ij f(s_ij - tau_i)                 an alignment: f, and which keys of a row it runs over
    s_ij = scale a_i . b_j                      a core: a dot product, or a sum over act(a_iw + b_jw) or act(a_iw b_jw)
    act(x) = linear x + bend |x|                a piecewise linear activation with its kink at 0; or tanh, or -x^2/2
    s' = bound tanh(s / bound)                  a modifier; or a clamp, or s' = s + bias of the pair
    i - left <= j <= i + right, j < length      a structure: bounds, lengths, a mask of keys, segments, a moving window

Each form has a family, the name by which backends declare support (`support.Support`). Parts without a form run on
backends without kernels.
"""

from typing import NamedTuple

from torch import Tensor

EXPONENTIAL, SIGMOID, POSITIVE_PART, SQUARE, POWER = range(5)  # f; the last three with tau the root of sum_j w_ij = 1
ALL_KEYS, BEST_KEYS, ONE_KEY = range(3)  # the keys of a row that may have weight
DOT, TANH, KINKED, ABSOLUTE, HALF_SQUARE = range(5)  # slope at 0: KINKED that of the negative side, ABSOLUTE none
NO_BOUND = 1 << 30  # of left and right

CORES = ("dot products", "tanh", "leaky ReLU", "|x|", "-x^2/2")  # by code, as in families
SOFT_CAP, CLAMP, PAIR_BIAS = "soft cap", "clamp", "a number for each pair"  # families of modifiers
ALIBI, DISTANCE_BIAS, GIVEN_BIAS = "ALiBi", "a number for each distance", "a given number for each pair"
WITHIN = {ALIBI: PAIR_BIAS, DISTANCE_BIAS: PAIR_BIAS, GIVEN_BIAS: PAIR_BIAS}  # the family that holds all of another
# Families of structures.
ALL_PAIRS, CAUSAL, WINDOW, PADDING = "all pairs", "causal", "windows", "padding"
KEY_MASK, PAIR_MASK, SEGMENTS = "key masks", "pair masks", "segments"
PREDICTED_WINDOW, EDGE_LIST = "predicted windows", "edges"


class AlignmentForm(NamedTuple):
    """Kernel form of an alignment."""

    family: str
    function: int
    alpha: float = 1.0  # of POSITIVE_PART, SQUARE and POWER: f(x) = [(alpha - 1) x]_+ ^ (1 / (alpha - 1))
    bias: float | None = None  # of SIGMOID; None is -log of the number of keys
    keys: int = ALL_KEYS
    top: int = 0  # keys of a row, of BEST_KEYS
    temperature: float | None = None  # of scores with Gumbel noise


class CoreForm(NamedTuple):
    """Kernel form of a core: s_ij = scale a_i . b_j, or sum_w readout_w act(a_iw + b_jw).

    weights  scores of a pair: "one"; "each" hidden unit its own; "mixed" by a readout matrix
    """

    code: int
    linear: float = 0.0
    bend: float = 0.0
    slope: float = 0.0  # of KINKED, of the negative side
    join: str = "add"  # of a and b
    weights: str = "one"

    @property
    def family(self) -> str:
        """Such as "dot products", "tanh of sums" or "leaky ReLU of products by feature"."""
        if self.code == DOT:
            return CORES[DOT]
        joined = f"{CORES[self.code]} of {'sums' if self.join == 'add' else 'products'}"
        return joined + {"one": "", "each": " by feature", "mixed": " mixed into features"}[self.weights]


class ModifierForm(NamedTuple):
    """Kernel form of a pointwise modifier. Its tensor is `Modifier.kernel_tensor`.

    SOFT_CAP       s' = bound tanh(s / bound)
    CLAMP          s' = min(max(s, -bound), bound)
    ALIBI          s' = s - slope_h |i + shift - j|                    slopes (H or 1,)
    DISTANCE_BIAS  s' = s + table_h[clip(j - i - shift, -reach, reach) + reach]   table (H or 1, 2 reach + 1)
    GIVEN_BIAS     s' = s + bias[b // share, h, i, j]                  bias of four axes, each whole or 1
    PAIR_BIAS      s' = s + a number, of which kernels know nothing more
    """

    family: str
    bound: float = 0.0
    align: str | None = None  # where queries stand among keys: shift = m - n for "end", else 0
    reach: int = 0
    share: int = 1


class StructureForm(NamedTuple):
    """Kernel form of a structure fitted to a call: the pairs that satisfy all conditions given here."""

    family: str
    left: int = NO_BOUND  # i - left <= j
    right: int = NO_BOUND  # j <= i + right
    lengths: Tensor | None = None  # (B,): j < lengths
    keep: Tensor | None = None  # (B or 1, H or 1, m or 1) bool, of keys
    pairs: Tensor | None = None  # (B or 1, H or 1, n or 1, m or 1) bool
    ids: Tensor | None = None  # (B or 1, n): the segment of each query
    key_ids: Tensor | None = None  # (B or 1, m): of each key
    centre: Tensor | None = None  # (B H, n): |j - floor(centre_i)| <= reach
    reach: int = 0


ACTIVATIONS = {
    "tanh": CoreForm(TANH),
    "relu": CoreForm(KINKED, 0.5, 0.5, 0.0),
    "identity": CoreForm(KINKED, 1.0, 0.0, 1.0),
    "abs": CoreForm(ABSOLUTE, 0.0, 1.0),
    "negative_abs": CoreForm(ABSOLUTE, 0.0, -1.0),
    "negative_half_square": CoreForm(HALF_SQUARE),
}


def activation_form(name: str, slope: float = 0.0) -> CoreForm | None:
    """The form of a pair core with this activation; None without kernel code."""
    if name == "leaky_relu":
        return CoreForm(KINKED, (1 + slope) / 2, (1 - slope) / 2, slope)
    return ACTIVATIONS.get(name)


def core_families(codes: "tuple[int, ...]", join: str = "add", weights: str = "one") -> tuple[str, ...]:
    """Families of the cores with these codes."""
    return tuple(CoreForm(code, join=join, weights=weights).family for code in codes)


def listed(names: "tuple[str, ...] | list[str]") -> str:
    """A list in words: "softmax, top-k and sigmoid"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
