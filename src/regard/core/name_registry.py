"""Registries of classes by name. A class registers by giving name=; a file of a package by being in its folder.

    class Canberra(Score, name="canberra"): ...

Then attend(score="canberra") runs it, nn.Attention builds it, and studies and `regard taxonomy` list it.
"""

import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Generic, TypeVar

from .arguments.synonyms import spelled, unknown_name

T = TypeVar("T")


class Names(Generic[T]):
    """Classes by name.

    free    what a name means in `attend`: the class built without sizes, one shared object a name
    built   what a name means in `regard.nn`: the class built for the widths of queries and keys, a new object each time
    pages   by class, the page of docs/mechanisms that is about it
    also    synonyms
    """

    kinds: ClassVar["list[Names[Any]]"] = []

    def __init__(self, kind: str, also: "Mapping[str, str] | None" = None):
        Names.kinds.append(self)
        self.kind, self.also = kind, {} if also is None else also
        self.free: dict[str, type[T]] = {}
        self.built: dict[str, type[T]] = {}
        self.pages: dict[type[T], str] = {}
        self._made: dict[str, T] = {}

    def enlist(self, cls: type[T], names: "str | tuple[str, ...]", *, free: bool = True, page: str = "") -> None:
        """Registers a class under one name or several; free=False: it needs sizes. A redefinition replaces it."""
        names = (names,) if isinstance(names, str) else names
        for name in names:
            before = self.built.get(name)
            if before is not None and before.__qualname__ != cls.__qualname__:
                raise ValueError(
                    f"class {cls.__name__}(name={name!r}): this is the {self.kind} {before.__name__}; "
                    "choose another name."
                )
            self.built[name] = cls
            if free:
                self.free[name] = cls
            self._made.pop(name, None)
        self.pages[cls] = page or names[0]

    def shared(self, name: str) -> T | None:
        """The shared object that this name means in `attend`; None for an unknown name."""
        found = self._made.get(name)
        if found is None:
            own = self.own_name(name)
            if own in self.free:
                if own not in self._made:
                    self._made[own] = self.free[own]()
                found = self._made[own]
        return found

    def unknown(self, argument: str, name: str, known: Iterable[str], object_name: str) -> ValueError:
        """The error for an unknown name of an argument."""
        others = [one for other in Names.kinds if other is not self for one in other.built]
        return unknown_name(argument, name, known, others, object_name)

    def own_name(self, name: str) -> str:
        """Resolves a synonym: bahdanau is additive, Scaled-Dot is scaled_dot."""
        if name in self.built:
            return name
        plain = spelled(name)
        return self.also.get(plain, plain)


def built_for(cls: type[T], d_q: int, d_k: int, heads: int, **more: int) -> T:
    """Builds a class with those of d_q, d_k, d (the width of keys), heads and more that its constructor accepts."""
    sizes = {"d_q": d_q, "d_k": d_k, "d": d_k, "heads": heads} | more
    takes = inspect.signature(cls).parameters
    return cls(**{name: size for name, size in sizes.items() if name in takes})


def call_of(cls: type[T]) -> str:
    """A class's constructor call with its required arguments: "Location(d_q, length)"."""
    parameters = inspect.signature(cls).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return f"{cls.__name__}({', '.join(needed)})"


def read_folder(package: str, folders: Iterable[str]) -> None:
    """Imports every module of a package, so that its classes register; not its subpackages."""
    for one in iter_modules(folders):
        if not one.ispkg:
            import_module(f"{package}.{one.name}")
