"""The arguments of the dense operators, each described once; Triton is not imported here."""

from typing import NamedTuple

from torch import Tensor


class DenseArguments(NamedTuple):
    """Of `regard::dense_triton`, in the order of its schema.

    Grouped-query attention: b and v have as many heads as a, or a divisor of their number.
    """

    a: Tensor  # (g, n, d), g = batch x heads
    b: Tensor  # (g / group, m, d)
    v: Tensor  # (g / group, m, d_v)
    readout: Tensor | None  # (g, d), of a pair
    key_bias: Tensor | None  # (g / group, m)
    row_bias: Tensor | None  # (g, n)
    centre: Tensor | None  # (g, n), of a Gaussian window over the keys; the last that receives a gradient
    lengths: Tensor | None  # keys of each item
    keep: Tensor | None  # mask of keys
    low: Tensor | None  # (g, n) int32: the first key of each row, and the one after the last
    high: Tensor | None
    seed: Tensor | None  # of dropout
    left: int  # keys from i - left to i + right
    right: int
    heads: int
    core: int  # core/lowering/kernel_forms
    scale: float  # of a dot
    linear: float  # act(x) = linear x + bent |x|, of a pair
    bent: float
    align: int  # f of the alignment: core/lowering/kernel_forms
    alpha: float
    bias: float | None  # of a sigmoid
    narrow: float  # 1 / (2 width^2) of the Gaussian window
    dropout: float
    trains: bool  # whether a gradient may be asked for


DIFFERENTIABLE = 7  # a to centre


class TopkArguments(NamedTuple):
    """Of `regard::topk_triton`, in the order of its schema; as in `DenseArguments`."""

    a: Tensor
    b: Tensor
    v: Tensor
    readout: Tensor | None
    key_bias: Tensor | None  # the last that receives a gradient
    lengths: Tensor | None
    keep: Tensor | None
    low: Tensor | None
    high: Tensor | None
    seed: Tensor | None
    left: int
    right: int
    heads: int
    core: int
    scale: float
    linear: float
    bent: float
    k: int
    dropout: float


class ChoiceArguments(NamedTuple):
    """Of `regard::choose_triton`, in the order of its schema; as in `DenseArguments`, but for the seed."""

    a: Tensor
    b: Tensor
    readout: Tensor | None
    key_bias: Tensor | None
    row_bias: Tensor | None  # the last that receives a gradient
    lengths: Tensor | None
    keep: Tensor | None
    low: Tensor | None
    high: Tensor | None
    seed: Tensor | None  # of the draw; None takes the best key. The backward has none.
    left: int
    right: int
    heads: int
    core: int
    scale: float
    linear: float
    bent: float
