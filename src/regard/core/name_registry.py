"""Registries of classes by name. A class registers by giving name=; a file of a package by being in its folder.

    class Canberra(Score, name="canberra"): ...

From then on attend(score="canberra") runs it, nn.Attention builds it, studies and `regard taxonomy` know it.
"""

import inspect
from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

T = TypeVar("T")


class Names(Generic[T]):
    """Classes by name.

    free    what a name means in `attend`: the class built without sizes, one shared object a name
    built   what a name means in `regard.nn`: the class built for the widths of queries and keys, a fresh object each
    pages   by class, the page of docs/mechanisms that is about it
    """

    def __init__(self, kind: str):
        self.kind = kind
        self.free: dict[str, type[T]] = {}
        self.built: dict[str, type[T]] = {}
        self.pages: dict[type[T], str] = {}
        self._made: dict[str, T] = {}

    def enlist(self, cls: type[T], names: "str | tuple[str, ...]", *, free: bool = True, page: str = "") -> None:
        """Under one name or several; not free: it has no form without sizes. A class defined again takes its place."""
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
        if found is None and name in self.free:
            found = self._made[name] = self.free[name]()
        return found


def built_for(cls: type[T], d_q: int, d_k: int, heads: int) -> T:
    """A class built with those of d_q, d_k, d (the width of keys) and heads that its constructor takes."""
    given = {"d_q": d_q, "d_k": d_k, "d": d_k, "heads": heads}
    takes = inspect.signature(cls).parameters
    return cls(**{name: size for name, size in given.items() if name in takes})


def read_folder(package: str, folders: Iterable[str]) -> None:
    """Imports every module of a package, so that its classes register; not its subpackages."""
    for one in iter_modules(folders):
        if not one.ispkg:
            import_module(f"{package}.{one.name}")
