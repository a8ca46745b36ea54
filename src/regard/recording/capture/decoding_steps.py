"""Decoding steps without the function mode: torch's dispatcher sees what may attend, and nothing else costs anything.

A TorchFunctionMode sees every function that Python calls, which is most of what recording costs where functions take
microseconds. Once the steps of a decoder are known to attend by fused kernels alone, the mode leaves torch's stack for
each call of the outermost module. Operators that attend, that may begin attention (softmax, exp, sigmoid, ...), or that
are written in Python have a kernel at a dispatch key that torch leaves unused; the key is on for this thread meanwhile,
so that they are seen whoever calls them, by whatever name, from Python or from C++. Other operators have no kernel
there, and the dispatcher passes over the key.

The mode comes back at the first operator that may begin attention, for calls of higher-order operators
(flex_attention), which do not pass the dispatcher, and in one call of CHECKED, which looks at everything once more.

Private parts (torch 2.13), in core/torch_private: the spare dispatch key, and the stack of function modes.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, local
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard.core.torch_private import (
    SPARE_KEY,
    below_spare_key,
    custom_operators,
    library_definitions,
    mode_at,
    modes,
    operator_names,
    pop_mode,
    push_mode,
    tracing,
    use_spare_key,
)

from ..missed import described_error
from .module_stack import as_if_in
from .tracing.function_names import torch_name
from .tracing.starts import STARTS

CHECKED = 32  # one call of so many runs under the mode
ATTENDS = ("attention", "attn", "mha_fwd", "fmha")  # in the name of an operator
FUNCTIONS = {"aten::scaled_dot_product_attention": F.scaled_dot_product_attention}  # the same, called in less time
See = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def attends(name: str) -> bool:
    """Whether an operator of this name computes attention: flash_attn::_flash_attn_forward."""
    last = name.rpartition("::")[2]
    return any(word in last for word in ATTENDS) and "backward" not in last and not name.startswith("regard::")


class _Here(local):
    steps: "DecodingSteps | None" = None  # of the mode of this thread


_here = _Here()


class DecodingSteps:
    """The calls of one module during which a mode is away from torch's stack.

    mode      the mode
    see       what a watched operator is handed to: operator, arguments by position and by name
    allowed   whether the mode may leave for the call that begins
    told      is told of operators that were registered while a call ran without the mode
    """

    def __init__(
        self, mode: TorchFunctionMode, see: See, allowed: Callable[[], bool], told: Callable[[str, str], None]
    ) -> None:
        self.mode, self.see, self.allowed, self.told = mode, see, allowed, told
        self.away = False
        self._seeing = self._due = False  # whether an operator is being looked at, and the mode comes back after it
        self._module: Callable[[], nn.Module | None] = lambda: None
        self._hooks: list[Any] = []
        self._calls = 0
        self._depth = 0  # of the stack of modes while this one is away

    def watch(self, module: nn.Module) -> None:
        """Leave for calls of this module, from the next one on."""
        if self._module() is module or not operators.watch():
            return
        self.stop()
        with suppress(RuntimeError, AttributeError):  # a module of TorchScript takes no hooks
            self._hooks.append(module.register_forward_pre_hook(_begins))
            self._hooks.append(module.register_forward_hook(_ends, always_call=True))
            self._module, self._calls, _here.steps = ref(module), 0, self

    def stop(self) -> None:
        """The mode is here again, and stays."""
        self.come_back()
        while self._hooks:
            self._hooks.pop().remove()
        self._module = lambda: None

    def begins(self, module: nn.Module) -> None:
        self.come_back()  # after a call that was interrupted
        depth = modes()
        if module is not self._module() or not depth or mode_at(depth - 1) is not self.mode or tracing():
            return
        self._calls += 1
        if self._calls % CHECKED and self.allowed() and operators.watch():
            pop_mode()
            self._depth, self.away = depth - 1, True
            use_spare_key(True)

    def ends(self, module: nn.Module) -> None:
        if self.away and module is self._module():
            found = operators.found_since()
            self.come_back()
            if found:
                with as_if_in(module):
                    self.told(
                        ", ".join(found[:3]), "registered while a decoding step ran, which was not watched for it"
                    )

    def look(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A watched operator is called."""
        if not self.away or self._seeing:
            return operator(*args, **kwargs)
        self._seeing = True
        try:
            return self.see(operator, args, kwargs)
        finally:
            self._seeing = False
            if self._due:
                self._due = False
                self.come_back()

    def come_back(self) -> None:
        """The mode takes its place on the stack, below those that were entered since."""
        if not self.away:
            return
        if self._seeing:  # what looks at an operator runs it, and the mode would see it once more
            self._due = True
            return
        self.away = False
        use_spare_key(False)
        above = [pop_mode() for _ in range(modes() - self._depth)]
        for each in (self.mode, *reversed(above)):
            push_mode(each)


def _begins(module: nn.Module, _: Any) -> None:
    if _here.steps is not None:
        _guarded(_here.steps.begins, module, _here.steps)


def _ends(module: nn.Module, *_: Any) -> None:
    if _here.steps is not None:
        _guarded(_here.steps.ends, module, _here.steps)


def _guarded(hook: Callable[[nn.Module], None], module: nn.Module, steps: DecodingSteps) -> None:
    """What fails in a hook is an entry, and never the model's."""
    try:
        hook(module)
    except Exception as error:
        steps.told("a decoding step", described_error(error))


class WatchedOperators:
    """The operators that have a kernel at the spare key; once they have it, they keep it."""

    def __init__(self) -> None:
        self._libraries: dict[str, torch.library.Library] = {}
        self._names = set[str]()  # of all that were looked at
        self._registered: tuple[int, ...] = ()
        self._failed = False
        self._lock = Lock()

    def watch(self) -> bool:
        """Whether all operators of today that are to be watched are."""
        if self._registered != _registered() and not self._failed:
            self.found_since()
        return not self._failed

    def found_since(self) -> list[str]:
        """Those that were registered since the last look, and are watched from now on."""
        if self._registered == _registered():
            return []
        with self._lock:
            found = []
            try:
                if not self._libraries:
                    self._libraries["_"] = torch.library.Library("_", "IMPL")
                    self._libraries["_"].fallback(torch.library.fallthrough_kernel, SPARE_KEY)
                for name in operator_names():
                    if name not in self._names and _watched(name):
                        space = name.partition("::")[0]
                        library = self._libraries.get(space) or torch.library.Library(space, "IMPL")
                        self._libraries[space] = library
                        operator = _operator(name)
                        library.impl(operator, partial(_seen, FUNCTIONS.get(name, operator)), SPARE_KEY)
                        found.append(name)
                    self._names.add(name)
            except Exception:  # then the mode never leaves
                self._failed = True
            self._registered = _registered()
            return found


operators = WatchedOperators()


def _registered() -> tuple[int, ...]:
    """Numbers of which one changes where an operator is registered: by Python, by a library, by an extension."""
    return len(custom_operators), len(library_definitions), len(torch.ops.loaded_libraries), len(sys.modules)


def _watched(name: str) -> bool:
    space, _, rest = name.partition("::")
    base = rest.partition(".")[0]
    if space in ("aten", "prims"):
        return attends(f"{space}::{base}") or ("backward" not in base and torch_name(_operator(name)) in STARTS)
    return space != "regard" and (attends(f"{space}::{base}") or f"{space}::{base}" in custom_operators)


def _operator(name: str) -> Any:
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


def _seen(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """The kernel of a watched operator: what the mode makes of it, with all that it calls below the key."""
    with below_spare_key():
        steps = _here.steps
        return operator(*args, **kwargs) if steps is None else steps.look(operator, args, kwargs)
