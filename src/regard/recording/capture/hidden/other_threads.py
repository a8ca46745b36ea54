"""Runs of a model in threads that were there before the block: a mode sees its own thread alone, so they are told.

The hook is a function of this module, so that a model can be copied and saved while it is recorded. Containers of torch
that have a fast path would lose it to a hook: of these nothing is told.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock, get_ident
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from ...missed import Missed
from ..function_mode import FAST, active_mode
from .not_visible import is_watched

Tell = Callable[[Missed], None]
REASON = "ran in another thread than the one that records, which sees its own alone"
_watched: "WeakKeyDictionary[nn.Module, list[tuple[int, Tell]]]" = WeakKeyDictionary()
_lock = Lock()


class OtherThreads:
    """Reports each run of a model in another thread, until it is stopped."""

    def __init__(self, model: nn.Module, tell: Tell):
        replicated = isinstance(
            model, nn.DataParallel
        )  # its copies run in threads, and share the hooks of what they copy
        self.models = [each for each in (model, model.module if replicated else None) if isinstance(each, nn.Module)]
        self.entry = (get_ident(), tell)
        self.hooks: list[Any] = []
        for each in self.models:
            if not isinstance(each, FAST):
                with _lock:
                    _watched.setdefault(each, []).append(self.entry)
                with suppress(RuntimeError, AttributeError):  # a compiled module of TorchScript takes none
                    self.hooks.append(each.register_forward_pre_hook(_began))

    def stop(self) -> None:
        while self.hooks:
            self.hooks.pop().remove()
        with _lock:
            for each in self.models:
                entries = _watched.get(each, [])
                if self.entry in entries:
                    entries.remove(self.entry)


def _began(module: nn.Module, args: Any) -> None:
    if active_mode() is not None or is_watched():  # this thread records, or tells of each function
        return
    missed = Missed.here("forward", REASON).at(type(module).__name__)
    with _lock:
        for thread, tell in _watched.get(module, ()):
            if thread != get_ident():
                tell(missed)
