"""RecordingMode: sees every attention that runs, whoever calls it, while a listener is active.

One TorchFunctionMode a thread sees each torch function that Python calls: aliased imports, torch.ops, flex_attention.
Readers turn those that attend into calls; listeners (a record, an intervention) are told of each. The model's own
kernel runs unless a listener gives other weights.

Private parts (torch 2.13): `torch._ops` for the types of operators, which have no public name, and
`torch._C._disabled_torch_function_impl`, the mark of subclasses that override nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, cached_property
from threading import local
from typing import Any, Protocol

import torch
import torch.overrides
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.core.maps.attention_map import AttentionMap
from regard.core.torch_private import OPERATORS, disabled_torch_function

from .calls import Call
from .module_stack import modules_followed, modules_running
from .refcounted_context import RefcountedContext
from .softmax_tracer import Traces

Reader = Callable[["RecordingMode", Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
readers: dict[Any, Reader] = {}  # by function
named_readers: dict[str, Reader] = {}  # by the qualified name of an operator: aten::_scaled_dot_product_...


switches: list[Callable[[], AbstractContextManager[Any]]] = []  # on while a thread listens: readers outside torch


class Listener(Protocol):
    """What is called around each attention call of a model: to change its weights, and to record it."""

    def change(self, call: Call, weights: "InterventionResult | None") -> "InterventionResult | None":
        """Other weights for this call (given what an outer listener made of it), or None to leave it alone."""

    def on_call(self, call: Call, changed: "InterventionResult | None", out: Any) -> None:
        """A call has run; `changed` is what interventions made of it."""

    def on_missed(self, name: str) -> None:
        """Something like attention ran that could not be read."""

    def may_edit(self, module: nn.Module) -> bool:
        """Whether attention inside this module may be given other weights: then it must not run in one operator."""


class InterventionResult:
    """What interventions made of a call, computed once when it is asked for.

    out: what call.give takes. map: the weights that gave it. kept(copy): that map with tensors of its own.
    """

    def __init__(self, state: Any):
        self.state = state

    @cached_property
    def out(self) -> Tensor:
        made: Tensor = self.state.out()
        return made

    @cached_property
    def map(self) -> AttentionMap:
        made: AttentionMap = self.state.map()
        return made

    def snapshot(self, copy: Callable[[Tensor], Tensor]) -> AttentionMap:
        made: AttentionMap = self.state.snapshot(copy)
        return made


class RecordingMode(TorchFunctionMode):
    """The mode. Readers pass what they read to `dispatch`."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Listener] = []
        self.traces = Traces()
        self.heads: list[int] = []  # of the multi-head attention that is running, where its weights do not say
        self.pause_depth = 0  # above 0, what runs is ours or part of a call that was already captured
        self._stack = ExitStack()
        self._resolved: dict[Any, Reader | None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if self.pause_depth:
            return func(*args, **kwargs)
        try:
            reader = self._resolved[func]
        except KeyError:
            reader = self._resolved[func] = _reader_of(func)
        if reader is not None:
            return reader(self, func, args, kwargs)
        return self.traces.follow(self, func, args, kwargs)

    def dispatch(self, call: Call, run: Callable[[], Any]) -> Any:
        """Ask the listeners for other weights, else run the model's own kernel; then report the call to all of them."""
        changed: InterventionResult | None = None
        with self.paused():
            own = call.own = cache(run)
            try:
                for listener in self.listeners:
                    changed = listener.change(call, changed) or changed
                out = own() if changed is None else call.give(changed.out)
            finally:
                call.own = None  # a copy that is kept must not hold the model's tensors
            for listener in self.listeners:
                listener.on_call(call, changed, out)
        if hasattr(call, "changed"):  # our own attend returns its map
            call.changed = changed
        return out

    @contextmanager
    def paused(self) -> Iterator[None]:
        """In this block nothing is captured: what runs is not the model's own attention."""
        self.pause_depth += 1
        try:
            yield
        finally:
            self.pause_depth -= 1

    def miss(self, name: str) -> None:
        for listener in self.listeners:
            listener.on_missed(name)


def _reader_of(func: Any) -> Reader | None:
    found = readers.get(func)
    if found is not None or not isinstance(func, OPERATORS):
        return found
    name = str(getattr(func, "_qualified_op_name", None) or func.name()).removesuffix(".default")
    exact = named_readers.get(name)
    if exact is not None:
        return exact
    last = name.rpartition("::")[2]
    attends = any(word in last for word in ("attention", "attn", "mha_fwd", "fmha")) and "backward" not in last
    return (lambda mode, f, a, k: _unread(mode, f, a, k, name)) if attends and not name.startswith("regard::") else None


def _unread(mode: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    mode.miss(name)
    return func(*args, **kwargs)


class _Thread(local):
    mode: RecordingMode | None = None


_thread = _Thread()


def listen(listener: Listener) -> None:
    """Start to tell a listener, in this thread. The first one starts the mode."""
    mode = _thread.mode
    if mode is None:
        mode = RecordingMode()
        mode._stack.enter_context(_eager())
        mode._stack.enter_context(modules_followed())
        mode._stack.enter_context(_FastPathsStay())
        for switch in switches:
            mode._stack.enter_context(switch())
        mode._stack.enter_context(mode)
        _thread.mode = mode
    mode.listeners.append(listener)


def stop(listener: Listener) -> None:
    mode = _thread.mode
    if mode is None or listener not in mode.listeners:
        return
    mode.listeners.remove(listener)
    if not mode.listeners:
        _thread.mode = None
        mode._stack.close()


def active_mode() -> RecordingMode | None:
    """The mode of this thread, unless it is paused."""
    mode = _thread.mode
    return None if mode is None or mode.pause_depth else mode


FAST = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer)


# Compiled code hides its attention. The stance is one for all threads.
_eager = RefcountedContext(lambda: torch.compiler.set_stance("force_eager"))


@RefcountedContext
class _FastPathsStay:
    """nn.TransformerEncoder takes its fast path only where no torch function is overridden: our mode overrides none."""

    def __enter__(self) -> None:
        self.asked = torch.overrides.has_torch_function
        asked = self.asked

        def has_torch_function(tensors: Any) -> bool:
            running = modules_running()
            if _thread.mode is None or not running or not isinstance(running[-1], FAST):
                return asked(tensors)
            if any(listener.may_edit(running[-1]) for listener in _thread.mode.listeners):
                return True
            return any(
                type(x) not in (Tensor, torch.nn.Parameter)
                and hasattr(type(x), "__torch_function__")
                and type(x).__torch_function__ is not disabled_torch_function
                for x in tensors
                if isinstance(x, Tensor)
            )

        torch.overrides.has_torch_function = has_torch_function  # type: ignore[assignment]

    def __exit__(self, *_: Any) -> None:
        torch.overrides.has_torch_function = self.asked
