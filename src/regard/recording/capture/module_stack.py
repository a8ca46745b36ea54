"""Sites: where attention happens in a model. The running modules are read from Python's call stack.

Hooks would cost every module of the model something, and those on the modules themselves switch off the fast path of
nn.TransformerEncoder; the stack is read where attention ran.

Private part (torch 2.13): `nn.Module._call_impl`, which every call of a module goes through.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from threading import local
from types import FrameType

from torch import nn


@dataclass(frozen=True)
class Site:
    """The module that attended, by its path in the model, and the number of the call there (from 0)."""

    path: str
    call: int = 0

    @property
    def layer(self) -> int | None:
        """The first whole number in the path: encoder.layer.3.attention.self is layer 3."""
        found = re.search(r"(?:^|\.)(\d+)(?:\.|$)", self.path)
        return None if found is None else int(found.group(1))

    def matches(self, glob: str) -> bool:
        """Whether the path, or the path with its call, fits a pattern such as encoder.layer.*"""
        return fnmatchcase(self.path, glob) or fnmatchcase(str(self), glob)

    def __str__(self) -> str:
        return self.path if self.call == 0 else f"{self.path}:{self.call}"


def describe_unmatched(glob: str, known: Iterable[str], unread: Iterable[str] = ()) -> str:
    """The message for a pattern that matches no site: where attention ran, and the nearest names."""
    known, unread = list(known), list(unread)
    near = get_close_matches(glob, known, 3, 0.0)
    text = (
        f"attention ran at {len(known)} site{'s' * (len(known) != 1)}, the nearest of them {', '.join(map(repr, near))}"
        if near
        else "no attention of this model ran in the block"
    )
    return text + (f"; not understood: {', '.join(unread[:3])}" if unread else "")


class ModulePaths:
    """The paths of a model's modules. Without a model every call counts, under the class of the module that made it."""

    def __init__(self, model: nn.Module | None):
        self.model = model

    @cached_property
    def paths(self) -> dict[int, str]:
        return {} if self.model is None else {id(module): name for name, module in self.model.named_modules()}

    def path(self) -> str | None:
        """The path of the innermost running module of the model; None outside the model."""
        for module in modules_running():
            if self.model is None:
                return type(module).__name__
            found = self.paths.get(id(module))
            if found is not None:
                return found or type(self.model).__name__
        return "function" if self.model is None else None


class _Assumed(local):
    def __init__(self) -> None:
        self.modules: list[nn.Module] = []
        self.outer: tuple[nn.Module, ...] = ()  # of the thread that started this one


_assumed = _Assumed()
_CALL = nn.Module._call_impl.__code__


def modules_running() -> Iterator[nn.Module]:
    """The modules whose forward is running in this thread, the innermost first."""
    yield from reversed(_assumed.modules)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            yield frame.f_locals["self"]
        frame = frame.f_back
    yield from reversed(_assumed.outer)


def arguments_of(model: nn.Module) -> tuple[tuple[object, ...], dict[str, object]] | None:
    """The arguments of a model that is running in this thread."""
    found = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL and frame.f_locals["self"] is model:
            found = frame.f_locals["args"], frame.f_locals["kwargs"]
        frame = frame.f_back
    return found


def innermost_module() -> nn.Module | None:
    """The module that is running in this thread."""
    return next(modules_running(), None)


@contextmanager
def as_if_in(*modules: nn.Module) -> Iterator[None]:
    """In this block these modules count as running, the outermost first."""
    before = len(_assumed.modules)
    _assumed.modules += modules
    try:
        yield
    finally:
        del _assumed.modules[before:]


@contextmanager
def started_by(modules: tuple[nn.Module, ...]) -> Iterator[None]:
    """In this block, in a thread of its own, all that runs is inside these modules, the outermost first."""
    before, _assumed.outer = _assumed.outer, modules
    try:
        yield
    finally:
        _assumed.outer = before
