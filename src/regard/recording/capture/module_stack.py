"""Sites: where attention happens in a model. The modules that are running now are kept on a stack, by global hooks.

Hooks on the modules themselves would switch off the fast path of nn.TransformerEncoder; global ones do not.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from threading import local
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .refcounted_context import RefcountedContext


@dataclass(frozen=True)
class Site:
    """The module that attended, by its path in the model, and which of its times this was (from 0)."""

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
    """What to say of a pattern that no site fits: where attention ran, and what is near."""
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
        self.paths = {} if model is None else {id(module): name for name, module in model.named_modules()}

    def path(self) -> str | None:
        """Where the code that runs now stands in the model; None if it is not the model's."""
        running = modules_running()
        if self.model is None:
            return type(running[-1]).__name__ if running else "function"
        for module in reversed(running):
            found = self.paths.get(id(module))
            if found is not None:
                return found or type(self.model).__name__
        return None


class _Running(local):
    def __init__(self) -> None:
        self.modules: list[nn.Module] = []
        self.followed = False


_running = _Running()


def modules_running() -> list[nn.Module]:
    """The modules whose forward is running in this thread, the innermost last."""
    return _running.modules


@contextmanager
def modules_followed() -> Iterator[None]:
    """In this block, this thread knows which modules it runs."""
    with _hooks():
        _running.followed = True
        try:
            yield
        finally:
            _running.followed = False
            _running.modules.clear()


@RefcountedContext
@contextmanager
def _hooks() -> Iterator[None]:
    """Hooked once for all threads: hooks that come and go with each would miss the end of what another one runs."""
    before = register_module_forward_pre_hook(_enter)
    after = register_module_forward_hook(_leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()


def _enter(module: nn.Module, arguments: Any) -> None:
    if _running.followed:
        _running.modules.append(module)


def _leave(module: nn.Module, arguments: Any, out: Any) -> None:
    stack = _running.modules
    while stack and stack.pop() is not module:  # what an exception left behind goes with it
        pass
