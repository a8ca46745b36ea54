"""What the audit knows of tensors, kept by the memory they lie in, so that views need no following."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from .event import Start

NONE: frozenset[Any] = frozenset()
_origins = count(1)


@dataclass
class Marks:
    """What is known of the numbers in one piece of memory.

    constant    follows from parameters, buffers and literals alone
    weights     normalised by these; unsummed: already multiplied by values, not yet summed
    logs        logarithms of such weights, or the logarithm of their sum
    positive    an exponential, a sigmoid, a relu: what people divide by its sum
    scores      0, or 1: a product of two activations, 2: bent by a function, as weights without normalisation are
    columns     of a linear layer's output, which index parameters; 0 where it is none
    origin      a number for what was computed; a copy has that of the original
    sampled     read from a map of features at places that were computed
    inverse     one over something: a factor that divides
    totals      the origins whose sum this follows from; products: those that were multiplied into it
    """

    constant: bool = False
    weights: frozenset[Start] = NONE
    unsummed: frozenset[Start] = NONE
    logs: frozenset[Start] = NONE
    positive: bool = False
    scores: int = 0
    columns: int = 0
    origin: int = field(default_factory=_origins.__next__)
    totals: frozenset[int] = NONE
    products: frozenset[int] = NONE
    inverse: bool = False
    sampled: bool = False


UNKNOWN = Marks(origin=0)


class Ledger:
    """Marks by storage. A storage that is weakly held keeps its number to itself until it is dropped here."""

    def __init__(self) -> None:
        self._marks: dict[int, tuple[StorageWeakRef, Marks]] = {}
        self._sweep_at = 4096

    def get(self, x: Tensor) -> Marks:
        held = self._marks.get(memory(x)._cdata)
        return UNKNOWN if held is None else held[1]

    def put(self, x: Tensor, marks: Marks) -> None:
        storage = memory(x)
        self._marks[storage._cdata] = (StorageWeakRef(storage), marks)
        if len(self._marks) > self._sweep_at:
            self._marks = {key: held for key, held in self._marks.items() if not held[0].expired()}
            self._sweep_at = 4096 + 2 * len(self._marks)


def memory(x: Tensor) -> Any:
    """The storage that a tensor's numbers lie in: of sparse and jagged tensors, that of their values."""
    if x.is_nested and x.layout is torch.jagged:
        return x.values().untyped_storage()
    if x.layout is torch.sparse_coo:
        return x._values().untyped_storage()
    if x.layout is not torch.strided:
        return x.values().untyped_storage()
    return x.untyped_storage()


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors among arguments or results, one list deep."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, Tensor):
                    yield each
