"""The arguments of the dense operators, each described once; Triton is not imported here."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.backends.range_masks import Ranges
from regard.core.lowering.kernel_forms import EXPONENTIAL, NO_BOUND, POSITIVE_PART, SIGMOID

from ..modifiers.codes import MAX_HELD, learning

LOG2E = 1.4426950408889634


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
    centre: Tensor | None  # (g, n), of a Gaussian window over the keys
    sink: Tensor | None  # (g,): the logit of one more key, without a value
    held_1: Tensor | None  # what modifiers hold, in their order
    held_2: Tensor | None
    held_3: Tensor | None  # the last that may receive a gradient
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
    modifiers: str  # of the scores: ../modifiers/codes
    bound_1: float  # of those that have one, in their order
    bound_2: float
    bound_3: float

    @property
    def ranges(self) -> Ranges:
        return Ranges(min(self.left, NO_BOUND), min(self.right, NO_BOUND), self.lengths, self.keep)

    @property
    def group(self) -> int:
        """How many heads of queries share one of keys."""
        return self.a.shape[0] // max(1, self.b.shape[0]) or 1

    @property
    def unit(self) -> float:
        """Scores of a softmax and a sigmoid are kept in base 2, unless modifiers are to see them first."""
        return LOG2E if self.align <= SIGMOID and not self.modifiers else 1.0

    @property
    def held(self) -> tuple[Tensor | None, ...]:
        return self.held_1, self.held_2, self.held_3

    @property
    def bounds(self) -> tuple[float, ...]:
        return self.bound_1, self.bound_2, self.bound_3

    @property
    def power(self) -> float:
        """Of the sparse alignments' f."""
        return 1 / (self.alpha - 1) if self.align > SIGMOID else 1.0


DIFFERENTIABLE = 11  # a to held_3


def receiving(arguments: Any) -> list[bool]:
    """Which of the first DIFFERENTIABLE arguments receive a gradient: all that are there, but of modifiers those that
    learn."""
    given = DenseArguments(*arguments)
    asked = [True] * (DIFFERENTIABLE - MAX_HELD) + learning(given.modifiers)
    return [x is not None and wanted for x, wanted in zip(given[:DIFFERENTIABLE], asked, strict=True)]


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

    def scoring(self) -> DenseArguments:
        """The same scores, in their own unit, without values."""
        a, b = self.a.contiguous(), self.b.contiguous()
        return scores_of(self, a, b, b.new_empty((b.shape[0], b.shape[1], 1)), POSITIVE_PART, 2.0)


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

    def scoring(self) -> DenseArguments:
        """The same scores under a softmax, each value a 1."""
        a, b = self.a.contiguous(), self.b.contiguous()
        ones = b.new_ones((*b.shape[:2], 1), dtype=torch.float32)
        return scores_of(self, a, b, ones, EXPONENTIAL, 1.0, self.row_bias)


def scores_of(
    given: TopkArguments | ChoiceArguments,
    a: Tensor,
    b: Tensor,
    v: Tensor,
    align: int,
    alpha: float,
    row_bias: Tensor | None = None,
) -> DenseArguments:
    """A call of the dense kernels with the scores of another operator's, without dropout."""
    shared: dict[str, Any] = {name: getattr(given, name) for name in SCORING}
    numbers: dict[str, Any] = {
        "align": align,
        "alpha": alpha,
        "bias": None,
        "narrow": 0.0,
        "dropout": 0.0,
        "trains": True,
        "modifiers": "",
        **dict.fromkeys(("bound_1", "bound_2", "bound_3"), 1.0),
    }
    unmodified: dict[str, Any] = dict.fromkeys(("sink", "held_1", "held_2", "held_3"))
    return DenseArguments(a=a, b=b, v=v, row_bias=row_bias, centre=None, seed=None, **numbers, **unmodified, **shared)


SCORING = (
    *("readout", "key_bias", "lengths", "keep", "low", "high"),
    *("left", "right", "heads", "core", "scale", "linear", "bent"),
)  # what scores are made of beside a and b, in all three
