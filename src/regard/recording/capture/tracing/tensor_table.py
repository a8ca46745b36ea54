"""A table by tensor, held weakly: what the model lets go is forgotten."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar
from weakref import ref

from torch import Tensor

Value = TypeVar("Value")


class TensorTable(Generic[Value]):
    """Values by the identity of tensors, whose own == compares elements."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[Any, Value]] = {}

    def __setitem__(self, x: Tensor, value: Value) -> None:
        key, entries = id(x), self.entries

        def forget(dead: Any) -> None:
            found = entries.get(key)
            if found is not None and found[0] is dead:
                del entries[key]

        entries[key] = (ref(x, forget), value)

    def get(self, x: Any) -> Value | None:
        found = self.entries.get(id(x))
        return found[1] if found is not None and found[0]() is x else None

    def drop(self, x: Tensor) -> None:
        if self.get(x) is not None:
            del self.entries[id(x)]

    def __contains__(self, x: Any) -> bool:
        return self.get(x) is not None

    def __len__(self) -> int:
        return len(self.entries)

    def items(self) -> Iterator[tuple[Tensor, Value]]:
        for held, value in list(self.entries.values()):
            x = held()
            if x is not None:
                yield x, value
