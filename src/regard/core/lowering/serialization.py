"""Serialization of a plan for a custom operator: a string of constants and a list of tensors.

`torch.compile` and `torch.export` see one operator with tensor inputs; the string describes how to rebuild the plan
from them. Every part of a plan (structure, core, modifier, alignment) is a `Spec`: it lists its fields, and is rebuilt
from them without running its constructor.
"""

import ast
import inspect
from functools import lru_cache
from typing import Any, ClassVar

from torch import Tensor, nn


class Spec:
    """A part of a plan that is serialized field by field, constants and tensors.

    The fields of a dataclass are its annotations; an nn.Module lists its own in `kept`. Exported programs hold class
    names: a class that is renamed lists its old name in `formerly`.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    formerly: ClassVar[tuple[str, ...]] = ()  # names of this class in exported programs of earlier versions
    _classes: ClassVar[dict[str, type["Spec"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in (cls.__name__, *cls.__dict__.get("formerly", ())):
            Spec._classes[name] = cls
        if "kept" not in cls.__dict__ and not issubclass(cls, nn.Module):
            names = [name for name in inspect.get_annotations(cls) if not name.startswith("_")]
            cls.kept = cls.kept + tuple(names)

    def fields_of(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.kept]


class Parts:
    """The tensors and numbers of a plan, in the order of `encode`.

    Numbers are separate from the text because sizes and scales may be symbolic while tracing.
    """

    def __init__(self, tensors: list[Tensor], ints: list[int], floats: list[float]):
        self.tensors, self.ints, self.floats = tensors, ints, floats


def encode(value: Any, parts: Parts) -> str:
    """A literal that `decode` reads: tensors stand as {0: place}, whole numbers as {1: place}, others as {2: place}."""
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, Tensor):
        parts.tensors.append(value)
        return "{0: " + str(len(parts.tensors) - 1) + "}"
    if isinstance(value, int):
        parts.ints.append(value)
        return "{1: " + str(len(parts.ints) - 1) + "}"
    if isinstance(value, float):
        parts.floats.append(value)
        return "{2: " + str(len(parts.floats) - 1) + "}"
    if isinstance(value, Spec):
        inner = [encode(part, parts) for _, part in value.fields_of()]
        return "['" + type(value).__name__ + "'" + "".join([", " + part for part in inner]) + "]"
    if isinstance(value, tuple):
        return "(" + "".join([encode(part, parts) + ", " for part in value]) + ")"
    raise TypeError(f"{type(value).__name__} cannot be serialized for an operator.")


def decode(text: str, parts: Parts) -> Any:
    return _rebuild(_parsed(text), parts)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    return ast.literal_eval(text)


def _rebuild(node: Any, parts: Parts) -> Any:
    if isinstance(node, dict):
        ((kind, place),) = node.items()
        return (parts.tensors, parts.ints, parts.floats)[kind][place]
    if isinstance(node, tuple):
        return tuple(_rebuild(part, parts) for part in node)
    if isinstance(node, list):
        cls = Spec._classes[node[0]]
        made = object.__new__(cls)
        if isinstance(made, nn.Module):
            nn.Module.__init__(made)
        written = len(node) - 1
        later = [name for name in cls.kept[written:] if not hasattr(cls, name)]  # newer fields have defaults
        if written > len(cls.kept) or later:
            raise ValueError(f"{cls.__name__} was written with {written} fields, this version has {len(cls.kept)}.")
        for name, part in zip(cls.kept[:written], node[1:], strict=True):
            made.__dict__[name] = _rebuild(part, parts)
        return made
    return node


def transform(value: Any, change: Any) -> Any:
    """A copy with each tensor t replaced by change(t); parts without tensors are shared."""
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
