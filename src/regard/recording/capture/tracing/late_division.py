"""Exponentials that are divided by their sum: before they meet the values, or after.

    e = exp(s);   (e / e.sum(-1)) @ v,   (e @ v) / e.sum(-1),   exp(s - logsumexp(s)) @ v

Sums are remembered, and products of exponentials with values, until one is divided by the other.
"""

from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

from torch import Tensor, nn

from ...missed import Missed
from .tensor_table import TensorTable
from .trace import Trace

LATE = "exponentials, their product with values, and a division by their sum in another form"
UNDIVIDED = "exponentials of scores met values, and no division by their sum was seen"


@dataclass(frozen=True, eq=False)
class Total:
    """A sum over some axes of a tensor, or what elementwise functions made of it."""

    source: Any  # a weak reference
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    root: object
    logarithm: bool = False  # of exponentials: logsumexp
    of_scores: bool = False  # whether they are exponentials of a product of two activations
    inverse: bool = False

    @property
    def axis(self) -> int | None:
        return self.axes[0] if len(self.axes) == 1 else None


@dataclass(frozen=True, eq=False)
class Unnormalised:
    """A product of exponentials with values.

    trace, call   where it is (..., n, m) @ (..., m, d), and nothing has changed it
    met           the products it is made of, which wait for a division
    """

    trace: Trace | None = None
    call: Any = None  # call(weights) -> the call, once they are normalised
    met: "frozenset[Waiting]" = frozenset()


@dataclass(frozen=True, eq=False)
class Waiting:
    """Exponentials of scores that met values and are not divided yet: told at the end, if they never are.

    modules     whose forward ran, the outermost first; listeners: who is told
    """

    missed: Missed
    modules: tuple[nn.Module, ...]
    listeners: tuple[Any, ...]


class LateDivision:
    """Sums and products by tensor, held weakly."""

    def __init__(self) -> None:
        self.totals: TensorTable[Total] = TensorTable()
        self.products: TensorTable[Unnormalised] = TensorTable()
        self.waiting: dict[Waiting, None] = {}

    def __len__(self) -> int:
        return len(self.totals) + len(self.products)

    def summed(
        self,
        out: Any,
        x: Tensor,
        axes: tuple[int, ...],
        root: object,
        logarithm: bool = False,
        of_scores: bool = False,
    ) -> None:
        if isinstance(out, Tensor) and out.ndim and axes:
            self.totals[out] = Total(ref(x), axes, tuple(x.shape), root, logarithm, of_scores)

    def carry(self, name: str, tensors: list[Tensor], out: Any) -> None:
        """An elementwise function or a view of a sum is still one, and so with a product."""
        if not isinstance(out, Tensor):
            return
        total = next((found for x in tensors if (found := self.totals.get(x)) is not None), None)
        if total is not None and out not in self.totals:
            inverts = name in ("reciprocal", "rdiv", "rtruediv") or (name in ("div", "pow") and self._divisor(tensors))
            self.totals[out] = replace(total, inverse=total.inverse != inverts)
        products = [product for x in tensors if (product := self.products.get(x)) is not None]
        if products:
            self.products[out] = Unnormalised(met=frozenset().union(*(each.met for each in products)))

    def wait(self, entry: Waiting) -> "frozenset[Waiting]":
        """A product of exponentials with values, of which something must become."""
        self.waiting[entry] = None
        return frozenset((entry,))

    def settle_one(self, entry: "Waiting | None") -> None:
        if entry is not None:
            self.waiting.pop(entry, None)

    def settle(self, *products: "Unnormalised | None") -> None:
        """They were divided: a map was made of them, or an entry."""
        for product in products:
            for entry in () if product is None else product.met:
                self.settle_one(entry)

    def _divisor(self, tensors: list[Tensor]) -> bool:
        return tensors[0] not in self.totals if len(tensors) > 1 else False

    def divisor(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "tuple[Tensor, Total] | None":
        """x / total, or x times one over it: the dividend and the total."""
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        if len(given) < 2:
            return None
        x, y = given[:2]
        for dividend, other in ((x, y), (y, x)) if name == "mul" else ((x, y),):
            total = self.totals.get(other)
            if total is not None and total.inverse == (name == "mul"):
                return dividend, total
        return None
