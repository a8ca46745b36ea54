"""How a plan crosses into a custom operator: a string of constants and a list of tensors.

`torch.compile` and `torch.export` see one operator with tensor inputs; the string says how to put the parts together
again. Every part of a plan (structure, core, modifier, alignment) is a `Spec`: it names its fields, and is rebuilt
from them without running its constructor.
"""

import ast
import dataclasses
from functools import lru_cache
from typing import Any

from torch import Tensor, nn


class Spec:
    """Something that can be taken apart into constants and tensors, and rebuilt.

    A frozen dataclass lists its fields by itself; an nn.Module names them in `kept`.
    """

    kept: tuple[str, ...] | None = None
    _known: dict[str, type] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Spec._known[cls.__name__] = cls

    def fields_of(self) -> list[tuple[str, Any]]:
        names = _dataclass_fields(type(self)) if self.kept is None else self.kept
        return [(name, getattr(self, name)) for name in names]


@lru_cache(maxsize=None)
def _dataclass_fields(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]


def encode(value: Any, tensors: list[Tensor]) -> str:
    """A literal that `decode` reads; tensors are appended to the list and stand as {position}."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return "{" + str(len(tensors) - 1) + "}"
    if isinstance(value, Spec):
        inner = [encode(part, tensors) for _, part in value.fields_of()]
        return "['" + type(value).__name__ + "'" + "".join([", " + part for part in inner]) + "]"
    if isinstance(value, tuple):
        return "(" + "".join([encode(part, tensors) + ", " for part in value]) + ")"
    if isinstance(value, float):
        return "1e999" if value == float("inf") else repr(value)
    return repr(value)


def decode(text: str, tensors: list[Tensor]) -> Any:
    return _rebuild(_parsed(text), tensors)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    return ast.literal_eval(text)


def _rebuild(node: Any, tensors: list[Tensor]) -> Any:
    if isinstance(node, set):
        return tensors[next(iter(node))]
    if isinstance(node, tuple):
        return tuple(_rebuild(part, tensors) for part in node)
    if isinstance(node, list):
        cls = Spec._known[node[0]]
        made = cls.__new__(cls)
        if isinstance(made, nn.Module):
            nn.Module.__init__(made)
        names = cls.kept if cls.kept is not None else _dataclass_fields(cls)  # type: ignore[attr-defined]
        for name, part in zip(names, node[1:], strict=True):
            made.__dict__[name] = _rebuild(part, tensors)
        return made
    return node


def transform(value: Any, change: Any) -> Any:
    """The same with each tensor t replaced by change(t); parts without tensors stay the objects they are."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(transform(part, change) for part in value)
    if isinstance(value, Spec):
        fields = value.fields_of()
        new = [transform(part, change) for _, part in fields]
        if all(a is b for a, (_, b) in zip(new, fields, strict=True)):
            return value
        made = type(value).__new__(type(value))
        if isinstance(made, nn.Module):
            nn.Module.__init__(made)
        for (name, _), part in zip(fields, new, strict=True):
            made.__dict__[name] = part
        return made
    return value
