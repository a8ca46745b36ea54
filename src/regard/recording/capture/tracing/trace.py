"""What is followed: a tensor of weights, and what happened to it since it was normalised."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..inplace import memory, version, written_by
from .arguments import Place, replaced
from .tensor_table import TensorTable

UNKNOWN_VERSIONS = (-1, -1)  # that no tensors have
KEPT = 8  # tensors of weights whose memory the model has outside of torch
ANOTHER_VIEW = "a view of their memory that torch does not tell of"


@dataclass(eq=False)
class Factors:
    """A product with values before it is summed: both as wide as the product. changed: an operator in between."""

    weights: Tensor
    values: Tensor
    root: Tensor | None  # the model's own tensor that met the values, where nothing happened to the product since
    grown: bool  # whether the values have axes that the weights have not
    changed: str = ""
    constant: bool = False  # whether the values are a parameter
    sampled: bool = False  # whether they are read from places that depend on the input

    def after(self, operator: str) -> "Factors":
        """The same when something happened to the product."""
        return replace(self, changed=self.changed or operator)


@dataclass(frozen=True)
class Merged:
    """An axis that another one was put together with, by a view: its length, and how many numbers of the longer one lie
    between two of its own."""

    axis: int
    length: int
    step: int


@dataclass(eq=False)
class Trace:
    """Weights on their way to the values.

    weights    what is followed, as it was before dropout
    how        softmax, sigmoid, relu; exp, logarithms and gates (the sigmoid of a layer) are not normalised yet
    axis       the axis that was normalised; None where every element is by itself (sigmoid, relu, exp)
    features   axes that index parameters
    lost       the operator after which nothing is known but that these came from weights
    merged     where the axis that was normalised is a part of a longer one: it is known again once they are split
    """

    weights: Tensor
    how: str
    axis: int | None
    features: frozenset[int] = frozenset()
    root: object = field(default_factory=object)
    of_parameters: bool = False
    part: str = ""  # of a row of which not all keys are here: how many
    lost: str = ""
    merged: Merged | None = None
    factors: Factors | None = None
    product: bool = False  # whether the scores of exponentials are a product of two activations
    waits: Any = None  # an entry of LateDivision.waiting that is settled once the weights meet values
    spread: bool = False  # whether it was stretched to the shape of values
    peak: Tensor | None = None  # the largest score of each row, shaped like the weights but for the axis of the keys
    versions: tuple[int, int] = (0, 0)  # of the tensor that is followed and of `weights`, when they were made

    @property
    def normalised(self) -> bool:
        return self.how not in ("exp", "log", "gate")


class Traces:
    """What is being followed, by tensor.

    Dropout gives other weights than those that are followed. What the model does to its own after that is done to the
    others as well, on copies: nothing is written into a tensor of the model's a second time.
    """

    def __init__(self) -> None:
        self.table: TensorTable[Trace] = TensorTable()
        self.ever = False  # whether anything was followed
        self._kept: deque[Tensor] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        return len(self.table)

    def get(self, x: Any) -> Trace | None:
        return self.table.get(x)

    def note(self, out: Tensor, trace: Trace) -> None:
        trace.versions = version(out), version(trace.weights)
        self.table[out], self.ever = trace, True

    def keep(self, x: Tensor, trace: Trace) -> None:
        """Its memory may come back as another tensor after the model released this one."""
        alias = x.detach()
        self._kept.append(alias)
        self.note(alias, replace(trace, weights=alias if trace.weights is x else trace.weights))

    def alias(self, x: Tensor) -> Trace | None:
        """What is followed in the memory of a tensor of which nothing is known: it came by NumPy, a storage, ..."""
        there = memory(x)
        if there is None or not x.is_floating_point():
            return None
        for other, trace in self.table.items():
            if trace.normalised and memory(other) == there:
                same = (other.shape, other.stride(), other.dtype) == (x.shape, x.stride(), x.dtype)
                return (
                    trace
                    if same
                    else replace(trace, weights=x.detach(), axis=None, lost=trace.lost or ANOTHER_VIEW, merged=None)
                )
        return None

    def stale(self, x: Tensor, trace: Trace) -> bool:
        """Whether the model wrote into the weights it goes on with in a way that was not followed."""
        if trace.weights is x or memory(x) == memory(trace.weights):
            return False
        return trace.versions != (version(x), version(trace.weights))

    def spare(self, written: Tensor, follows: bool, drops: bool) -> None:
        """A function is about to write: weights that lie there, and are followed elsewhere, are copied before; of what
        lies there and is followed by other weights, only the very tensor of a function that is followed stays known."""
        there = memory(written)
        if there is None:
            return
        for x, trace in self.table.items():
            here, apart = memory(x) == there, memory(trace.weights) != there
            if not apart and (drops or not here):
                trace.weights = trace.weights.detach().clone()
                trace.versions = trace.versions[0], version(trace.weights)
            if here and (apart or drops) and not (follows and x is written):
                trace.versions = UNKNOWN_VERSIONS


@torch.no_grad()
def run_on_copies(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    others: dict[Place, Tensor],
    before: Tensor | None,
) -> Any:
    """What a function makes of the weights from before dropout; all that it writes into is a copy."""
    listed, named = replaced(args, {name: x for name, x in kwargs.items() if name != "out"}, others)
    written = written_by(func, args, kwargs)
    if "out" not in kwargs and written is not None:
        first = others.get((0,))
        own = before if before is not None else (written if first is None else first).detach().clone()
        listed = (own, *listed[1:])
    return func(*listed, **named)
