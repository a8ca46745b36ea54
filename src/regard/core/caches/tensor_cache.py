"""Cache of values derived from tensors, keyed by tensor identity and version, with weak references.

A graph is sorted once although a layer is called with its raw edge_index again and again. The cache is an LRU
cache, and is bypassed while torch traces.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import TypeVar
from weakref import ref

import torch
from torch import Tensor

T = TypeVar("T")
LIMIT = 64  # entries

_entries: "OrderedDict[Hashable, tuple[tuple[ref[Tensor], ...], object]]" = OrderedDict()
_lock = RLock()


def cached_by_tensor(tensors: tuple[Tensor, ...], name: Hashable, make: Callable[[], T]) -> T:
    """make(), or its cached result if none of these tensors changed in place."""
    if torch.compiler.is_compiling() or any(type(x) is not Tensor or x.is_inference() for x in tensors):
        return make()
    key = (name, tuple([(id(x), x._version) for x in tensors]))
    with _lock:
        found = _entries.get(key)
        if found is not None and all(held() is x for held, x in zip(found[0], tensors, strict=True)):
            _entries.move_to_end(key)
            return found[1]  # type: ignore[return-value]
    made = make()

    def evict(_: object, made: dict[Hashable, object] = _entries, lock: RLock = _lock) -> None:  # type: ignore[assignment]
        with lock:  # bound as defaults: module globals are gone at interpreter exit
            made.pop(key, None)

    with _lock:
        _entries[key] = tuple([ref(x, evict) for x in tensors]), made
        while len(_entries) > LIMIT:
            _entries.popitem(last=False)
    return made
