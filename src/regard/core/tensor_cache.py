"""What was made from a tensor is remembered for as long as that very tensor lives unchanged.

A graph is sorted once although a layer is called with its raw edge_index again and again. Tensors are known by
identity and version, and held weakly; the memory is bounded, and empty while torch traces.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import TypeVar
from weakref import ref

import torch
from torch import Tensor

T = TypeVar("T")
LIMIT = 64  # results kept, the least recently used go first

_made: "OrderedDict[Hashable, tuple[tuple[ref[Tensor], ...], object]]" = OrderedDict()
_lock = RLock()


def remembered(tensors: tuple[Tensor, ...], name: Hashable, make: Callable[[], T]) -> T:
    """make(), or what it gave before for the same tensors in the same state."""
    if torch.compiler.is_compiling() or any(type(x) is not Tensor or x.is_inference() for x in tensors):
        return make()
    key = (name, tuple([(id(x), x._version) for x in tensors]))
    with _lock:
        found = _made.get(key)
        if found is not None and all(known() is x for known, x in zip(found[0], tensors, strict=True)):
            _made.move_to_end(key)
            return found[1]  # type: ignore[return-value]
    made = make()

    def forget(_: object, made: dict[Hashable, object] = _made, lock: RLock = _lock) -> None:  # type: ignore[assignment]
        with lock:  # bound here: the module's names are gone when the interpreter leaves
            made.pop(key, None)

    with _lock:
        _made[key] = tuple([ref(x, forget) for x in tensors]), made
        while len(_made) > LIMIT:
            _made.popitem(last=False)
    return made
