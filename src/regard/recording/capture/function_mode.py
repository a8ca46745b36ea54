"""Watching: sees every attention that runs, whoever calls it, while something listens.

One TorchFunctionMode a thread sees each torch function that Python calls: aliased imports, torch.ops, flex_attention.
Readers turn those that attend into calls; listeners (a record, an intervention) hear of each. The model's own kernel
runs unless a listener gives other weights.
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
from .refcounted_context import Switch
from .softmax_tracer import Traces

Reader = Callable[["RecordingMode", Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
readers: dict[Any, Reader] = {}  # by function
named_readers: dict[str, Reader] = {}  # by the qualified name of an operator: aten::_scaled_dot_product_...


switches: list[Callable[[], AbstractContextManager[Any]]] = []  # on while a thread listens: readers outside torch


class Listener(Protocol):
    def change(self, call: Call, weights: "InterventionResult | None") -> "InterventionResult | None":
        """Other weights for this call (given what an outer listener made of it), or None to leave it alone."""

    def heard(self, call: Call, changed: "InterventionResult | None", out: Any) -> None:
        """What ran."""

    def overlooked(self, name: str) -> None:
        """Something like attention ran that could not be read."""

    def alters(self, module: nn.Module) -> bool:
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

    def kept(self, copy: Callable[[Tensor], Tensor]) -> AttentionMap:
        made: AttentionMap = self.state.kept(copy)
        return made


class RecordingMode(TorchFunctionMode):
    """The mode. `ran` is how a reader tells what it read."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Listener] = []
        self.traces = Traces()
        self.heads: list[int] = []  # of the multi-head attention that is running, where its weights do not say
        self.quiet = 0  # above 0, what runs is ours or part of a call that is already known
        self._stack = ExitStack()
        self._resolved: dict[Any, Reader | None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if self.quiet:
            return func(*args, **kwargs)
        try:
            reader = self._resolved[func]
        except KeyError:
            reader = self._resolved[func] = _reader_of(func)
        if reader is not None:
            return reader(self, func, args, kwargs)
        return self.traces.follow(self, func, args, kwargs)

    def ran(self, call: Call, run: Callable[[], Any]) -> Any:
        """Ask the listeners for other weights; else run the model's own kernel. Tell them all."""
        changed: InterventionResult | None = None
        with self.unheard():
            own = call.own = cache(run)
            try:
                for listener in self.listeners:
                    changed = listener.change(call, changed) or changed
                out = own() if changed is None else call.give(changed.out)
            finally:
                call.own = None  # a copy that is kept must not hold the model's tensors
            for listener in self.listeners:
                listener.heard(call, changed, out)
        if hasattr(call, "changed"):  # our own attend returns its map
            call.changed = changed
        return out

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What runs in this block is not the model's own attention."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def miss(self, name: str) -> None:
        for listener in self.listeners:
            listener.overlooked(name)


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
    return (
        (lambda watch, f, a, k: _unread(watch, f, a, k, name)) if attends and not name.startswith("regard::") else None
    )


def _unread(watch: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    watch.miss(name)
    return func(*args, **kwargs)


class _Thread(local):
    watch: RecordingMode | None = None


_thread = _Thread()


def listen(listener: Listener) -> None:
    """Start to tell a listener, in this thread. The first one starts the watch."""
    watch = _thread.watch
    if watch is None:
        watch = RecordingMode()
        watch._stack.enter_context(_eager())
        watch._stack.enter_context(modules_followed())
        watch._stack.enter_context(_fast_paths_stay())
        for switch in switches:
            watch._stack.enter_context(switch())
        watch._stack.enter_context(watch)
        _thread.watch = watch
    watch.listeners.append(listener)


def stop(listener: Listener) -> None:
    watch = _thread.watch
    if watch is None or listener not in watch.listeners:
        return
    watch.listeners.remove(listener)
    if not watch.listeners:
        _thread.watch = None
        watch._stack.close()


def watching() -> RecordingMode | None:
    """The watch of this thread, unless it is to hear nothing now."""
    watch = _thread.watch
    return None if watch is None or watch.quiet else watch


FAST = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer)


# Compiled code hides its attention. The stance is one for all threads.
_eager = Switch(lambda: torch.compiler.set_stance("force_eager"))


@Switch
class _fast_paths_stay:
    """nn.TransformerEncoder takes its fast path only where no torch function is overridden: our watch is not one."""

    def __enter__(self) -> None:
        self.asked = torch.overrides.has_torch_function
        asked = self.asked

        def has_torch_function(tensors: Any) -> bool:
            running = modules_running()
            if _thread.watch is None or not running or not isinstance(running[-1], FAST):
                return asked(tensors)
            if any(listener.alters(running[-1]) for listener in _thread.watch.listeners):
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
