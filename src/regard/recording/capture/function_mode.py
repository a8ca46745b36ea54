"""RecordingMode: sees every attention call of a thread while a listener is active.

One TorchFunctionMode a thread sees each torch function that Python calls: aliased imports, torch.ops, flex_attention.
Readers turn those that attend into calls; listeners (a record, an intervention) are told of each. The model's own
kernel runs unless a listener gives other weights.

Private parts (torch 2.13): `torch._ops` for the types of operators, which have no public name, and
`torch._C._disabled_torch_function_impl`, the mark of subclasses that override nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, cached_property, partial
from threading import local
from types import MethodType
from typing import Any, Protocol

import torch
import torch.overrides
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard.core.maps.attention_map import AttentionMap
from regard.core.torch_private import OPERATORS, disabled_torch_function, interpreter_stack, tracing

from ..missed import Missed, described_error
from .calls import Call, ScoredCall
from .decoding_steps import DecodingSteps, attends
from .eager_stance import eager_stance
from .hidden.custom_operators import custom_operator, visible
from .mask_structure import recent_copies
from .module_stack import as_if_in, innermost_module, modules_running
from .refcounted_context import RefcountedContext
from .tracing.tracer import Tracer, noted, observed, starts
from .unreadable import TRACED, unreadable

OF_TENSORS = frozenset(((), (Tensor,), (nn.Parameter,), (Tensor, nn.Parameter), (nn.Parameter, Tensor)))  # types
STEPS = 2  # of a decoder (one query, more keys) without a softmax, after which none is expected
Reader = Callable[["RecordingMode", Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
readers: dict[Any, Reader] = {}  # by function
named_readers: dict[str, Reader] = {}  # by the qualified name of an operator: aten::_scaled_dot_product_...
operators_alone = set[Any]()  # functions that have a reader and are one operator, which can be watched as well


switches: list[Callable[[], AbstractContextManager[Any]]] = []  # on while a thread listens: readers outside torch


class Listener(Protocol):
    """What is called around each attention call of a model: to change its weights, and to record it.

    may_change   whether it ever gives other weights; one that does not is spared tensors that hold no numbers
    """

    may_change: bool

    def change(self, call: Call, weights: "InterventionResult | None") -> "InterventionResult | None":
        """Other weights for this call (given what an outer listener made of it), or None to leave it alone."""

    def on_call(self, call: Call, changed: "InterventionResult | None", out: Any) -> None:
        """A call has run; `changed` is what interventions made of it."""

    def on_missed(self, missed: Missed) -> None:
        """Attention ran that could not be read or kept."""

    def on_other(self, other: Missed) -> None:
        """Weights were put on something that is no attention."""

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


class ModelCall:
    """The model's own call, which runs exactly once whatever happens in the capture around it.

    `error` is an exception for the user: the model's own, or that of an intervention which does not fit.
    """

    def __init__(self, run: Callable[[], Any]):
        self._run = run
        self._ran, self._out = False, None
        self.readable = False  # whether its tensors are known to hold numbers
        self.error: BaseException | None = None

    def __call__(self, instead: Callable[[], Any] | None = None) -> Any:
        if not self._ran:
            try:
                self._out = (instead or self._run)()
            except BaseException as error:
                self.error = error
                raise
            self._ran = True
        return self._out


class RecordingMode(TorchFunctionMode):
    """The mode. Readers pass what they read to `dispatch`, and run the model's own function by `run`.

    Nothing that fails in a reader or a record reaches the model: `guarded` makes an entry of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Listener] = []
        self.traces = Tracer()
        self.heads: list[int] = []  # of the multi-head attention that is running, where its weights do not say
        self.pause_depth = 0  # above 0, what runs is ours or part of a call that was already captured
        self._stack = ExitStack()
        self._readers: dict[Any, Reader | None] = {}
        self._noted: dict[Any, str] = {}
        self._quiet = set[Any]()  # that neither attend nor start anything
        self._linear: Any = None  # F.linear once it was met: the most frequent function of most models
        self._note, self._note_linear = self.traces.state.origins.see, self.traces.state.origins.see_linear
        self._fused = Counter[int]()  # how often each module's kernel ran since a normalisation was seen
        self._repeats = False  # whether one of them ran STEPS times: a decoder's steps, in which nothing is written out
        self._surprised = False  # whether a normalisation came after such steps
        self._others_attended = False  # whether a function attended that is not one operator
        self._steps = DecodingSteps(self, self._see_operator, self._may_leave, self.miss)
        live, late = self.traces.state.live.table, self.traces.state.late  # empty while nothing is followed
        self._weights, self._totals, self._products = (x.entries for x in (live, late.totals, late.products))
        self._call: ModelCall | None = None  # the innermost that is being read
        self._may_change = False
        self.wants_peaks = False  # whether a listener asks for the largest score of rows that a model writes out

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        following = self._weights or self._totals or self._products
        if (
            func is self._linear
            and not (following or kwargs or self.pause_depth)
            and types in OF_TENSORS
            and type(args[1]) is nn.Parameter
        ):
            out = func(*args)
            if not self._repeats:
                try:
                    self._note_linear(func, args, out)
                except Exception as error:
                    self.miss("linear", described_error(error))
            return out
        if types not in OF_TENSORS and not self.pause_depth and not all(issubclass(kind, Tensor) for kind in types):
            return self._of_wrappers(func, types, args, {} if kwargs is None else kwargs)
        try:  # most functions neither attend nor start anything: one look-up, and on
            reader = self._readers.get(func, _unresolved)
        except TypeError:  # a function without a hash is none of torch's
            reader = None
        if not following:
            if reader is None:
                return func(*args, **kwargs) if kwargs else func(*args)
            if reader is _observe and not self.pause_depth:
                out = func(*args, **kwargs) if kwargs else func(*args)
                if self._repeats:
                    return out
                name = self._noted.get(func)
                try:
                    if name == "linear" and len(args) > 1 and type(args[1]) is nn.Parameter:
                        self._note_linear(func, args, out)
                    elif name and name != "linear":
                        self._note(name, func, args, kwargs or {}, out)
                    else:
                        self.traces.observe(self, func, args, kwargs or {}, out)
                except Exception as error:
                    self.miss(function_name(func), described_error(error))
                return out
        kwargs = {} if kwargs is None else kwargs
        if self.pause_depth:
            return func(*args, **kwargs)
        call = ModelCall(partial(func, *args, **kwargs))
        return self._guarded(func, partial(self._read, func, args, kwargs), call)

    def _of_wrappers(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Objects with a __torch_function__ of their own run it under the mode, which sees what it calls."""
        for kind in types:
            answer = kind.__torch_function__
            if not issubclass(kind, Tensor) and hasattr(answer, "__self__"):
                with self:
                    out = answer(func, types, args, kwargs)
                if out is not NotImplemented:
                    return out
        return func(*args, **kwargs)

    def _refresh_flags(self) -> None:
        self._may_change = any(each.may_change for each in self.listeners)
        self.wants_peaks = any(getattr(each, "wants_peaks", False) for each in self.listeners)

    def _read(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        reader = self._readers.get(func, _unresolved)
        if reader is _unresolved:
            reader = self._readers[func] = _reader_of(func)
            self._noted[func] = noted(func)
            if reader is None or reader is _observe:
                self._quiet.add(func)
                self._linear = F.linear if func is F.linear else self._linear
        assert self._call is not None
        if reader is None or reader is _follow or reader is _observe:
            return self._read_written_out(reader, func, args, kwargs)
        reason = unreadable(args, kwargs)
        if reader is _written_in_python:
            return self.run() if reason else reader(self, func, args, kwargs)
        if reason is not None and not self._may_change:
            self.miss(function_name(func), reason)
            return self.run()
        self._call.readable = reason is None
        if not isinstance(func, OPERATORS) and func not in operators_alone:
            self._others_attended = True
        return reader(self, func, args, kwargs)

    def _read_written_out(self, reader: Reader | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that may be part of hand-written attention."""
        if tracing() and not self._may_change:  # following it would write into the graph
            if reader is _follow and "softmax" in function_name(func):
                self.miss(function_name(func), TRACED)
            return self.run()
        if reader is _follow and not self._normalisation_was_expected(func):
            return self.run()
        if reader is _follow or self._weights or self._totals or self._products:
            return _follow(self, func, args, kwargs)
        out = self.run()
        if reader is _observe:
            self.traces.observe(self, func, args, kwargs, out)
        return out

    def _normalisation_was_expected(self, func: Any) -> bool:
        """False, with an entry in `missed`, for a softmax after steps without one, whose scores were not traced."""
        inside, repeated = innermost_module() is not None, self._repeats
        if inside:
            self._repeat(False)
            self._fused.clear()
        self._surprised = self._surprised or (inside and repeated)
        if inside and repeated and "softmax" in function_name(func):
            self.miss(function_name(func), "steps before it had none, so what its scores are made of was not followed")
            return False
        return True

    def _fused_ran(self) -> None:
        """Once a module attends again and again by its kernel and no weights were ever followed, the steps of a decoder
        are known to have none that are written out."""
        site = id(innermost_module())
        self._fused[site] += 1
        quiet = not self._surprised and not self.traces.state.live.ever
        if quiet and self._fused[site] >= STEPS:
            self._repeat(True)

    def _repeat(self, repeats: bool) -> None:
        """In a decoder's steps, functions that neither attend nor start anything pass through the least that a mode can
        do: torch asks the mode itself for its __torch_function__."""
        self._repeats = repeats
        if not repeats:
            self.__dict__.pop("__torch_function__", None)
            self._steps.stop()
        elif not (self._weights or self._totals or self._products):
            self.__dict__["__torch_function__"] = MethodType(_in_steps(self._quiet), self)
            outermost = next(reversed([*modules_running()]), None)
            if self._may_leave() and outermost is not None and not isinstance(outermost, FAST):
                self._steps.watch(outermost)

    def _may_leave(self) -> bool:
        """Whether a step is known well enough to be left to the operators that are watched below the functions: nothing
        is followed, nobody edits, and whatever attended is an operator."""
        if not self._repeats or self.pause_depth > 1 or self._may_change:
            return False
        following = self._weights or self._totals or self._products
        return not following and not self._others_attended and interpreter_stack() is None

    def _see_operator(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A watched operator is called while this mode is off the stack."""
        if self.pause_depth:
            return operator(*args, **kwargs)
        call = ModelCall(partial(operator, *args, **kwargs))
        return self._guarded(operator, partial(self._read, operator, args, kwargs), call)

    def guarded(self, operator: str, read: Callable[[], Any], run: Callable[[], Any]) -> Any:
        """read(); if it fails, an entry in `missed` and the result of the model's own run(), which runs once."""
        return self._guarded(operator, read, ModelCall(run))

    def _guarded(self, operator: Any, read: Callable[[], Any], call: ModelCall) -> Any:
        outer, self._call = self._call, call
        try:
            return read()
        except Exception as error:
            if call.error is error:
                raise
            self.miss(operator if isinstance(operator, str) else function_name(operator), described_error(error))
        finally:
            self._call = outer
        return call()

    def run(self, instead: Callable[[], Any] | None = None) -> Any:
        """Run the model's own function of the current call; `instead` is an equivalent form of it."""
        assert self._call is not None
        return self._call(instead)

    def dispatch(self, call: Call, run: Callable[[], Any]) -> Any:
        """Ask the listeners for other weights, else run the model's own kernel; then report the call to them."""
        self.pause_depth += 1
        try:
            out, changed = self._result(call, run)
            self._report(call, changed, out)
            if not self._repeats and isinstance(call, ScoredCall) and call.q.shape[-2] == 1 < call.k.shape[-2]:
                self._fused_ran()
        finally:
            self.pause_depth -= 1
        if hasattr(call, "changed"):  # our own attend returns its map
            call.changed = changed
        return out

    def _result(self, call: Call, run: Callable[[], Any]) -> tuple[Any, InterventionResult | None]:
        """What is returned to the model. Exceptions of the kernel and of interventions propagate to the user."""
        if not self._may_change:
            return self._unchanged(run), None
        changed: InterventionResult | None = None
        own = call.own = cache(run)
        try:
            for listener in self.listeners:
                if listener.may_change:
                    changed = listener.change(call, changed) or changed
            return own() if changed is None else call.give(changed.out), changed
        except Exception as error:
            if self._call is not None:
                self._call.error = error
            raise
        finally:
            call.own = None  # a copy that is kept must not hold the model's tensors

    def _unchanged(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except Exception as error:
            if self._call is not None:
                self._call.error = error
            raise

    def _report(self, call: Call, changed: InterventionResult | None, out: Any) -> None:
        readable = self._call is not None and self._call.readable
        for listener in self.listeners:
            try:
                reason = None if readable or listener.may_change else unreadable(call.inputs)
                if reason is None:
                    listener.on_call(call, changed, out)
            except Exception as error:
                reason = described_error(error)
            if reason is not None:
                listener.on_missed(Missed.here(call.kernel, reason))

    def settle(self, listener: Listener) -> None:
        """A listener leaves: report the exponentials that met values and were never normalised."""
        for waiting in self.traces.state.late.waiting:
            if any(listener is each for each in waiting.listeners):
                with as_if_in(*waiting.modules):
                    listener.on_missed(waiting.missed)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """In this block nothing is captured: it runs code of ours, not of the model."""
        self.pause_depth += 1
        try:
            yield
        finally:
            self.pause_depth -= 1

    def miss(self, operator: str, reason: str = "") -> None:
        """Report to every listener that attention ran and could not be recorded."""
        missed = Missed.here(operator, reason)
        for listener in self.listeners:
            listener.on_missed(missed)

    def other(self, operator: str, reason: str = "") -> None:
        """Report weights that are not attention: over experts, classes or codes."""
        found = Missed.here(operator, reason)
        for listener in self.listeners:
            listener.on_other(found)


def _follow(mode: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return mode.traces.follow(mode, func, args, kwargs)


def _in_steps(quiet: set[Any]) -> Callable[..., Any]:
    full = RecordingMode.__torch_function__

    def passes(mode: RecordingMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in quiet and types in OF_TENSORS:
            return func(*args, **kwargs) if kwargs else func(*args)
        return full(mode, func, types, args, kwargs)

    return passes


def _observe(mode: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Marks functions whose outputs have a known origin; they are observed while no weights are traced."""
    return mode.traces.follow(mode, func, args, kwargs)


def _gradient(mode: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A gradient taken inside a forward pass: that of logsumexp(q k^T) is attention, computed by autograd."""
    if mode.traces.state.energies and innermost_module() is not None:
        mode.miss(f"torch.autograd.{function_name(func)}", "the gradient of a logsumexp of scores is attention")
        mode.traces.state.energies = False
    return mode.run()


readers[torch.autograd.grad] = readers[torch.autograd.backward] = readers[Tensor.backward] = _gradient


def _unresolved(mode: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Marks functions that have not been resolved yet."""
    return mode.run()


def _reader_of(func: Any) -> Reader | None:
    found = readers.get(func)
    if found is not None:
        return found
    if not isinstance(func, OPERATORS):
        return _written_out(func)
    name = function_name(func)
    exact = named_readers.get(name)
    if exact is not None:
        return exact
    if custom_operator(func) is not None:
        return _written_in_python
    if attends(name):
        return _unread
    return _written_out(func)


def _written_out(func: Any) -> Reader | None:
    """The reader of a function that may be part of hand-written attention."""
    return _follow if starts(func) else _observe if observed(func) else None


def _written_in_python(mode: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with visible(custom_operator(func), mode, lambda: _thread.mode is mode):
        return mode.run()


def _unread(mode: RecordingMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode.miss(function_name(func), "an operator that is not understood")
    return mode.run()


def function_name(func: Any) -> str:
    """The name of a function: aten::mm for an operator."""
    if isinstance(func, OPERATORS):
        return str(getattr(func, "_qualified_op_name", None) or func.name()).removesuffix(".default")
    return str(getattr(func, "__name__", func))


class _Thread(local):
    mode: RecordingMode | None = None


_thread = _Thread()


def listen(listener: Listener) -> None:
    """Register a listener in this thread. The first one enters the mode."""
    mode = _thread.mode
    if mode is None:
        mode = RecordingMode()
        try:
            mode._stack.enter_context(eager_stance())
            mode._stack.enter_context(_FastPathsStay())
            for switch in switches:
                mode._stack.enter_context(switch())
            mode._stack.enter_context(mode)
        except BaseException:
            mode._stack.close()  # what was entered must not outlive a start that failed
            raise
        _thread.mode = mode
    mode._steps.come_back()
    mode.listeners.append(listener)
    mode._refresh_flags()


def stop(listener: Listener) -> None:
    mode = _thread.mode
    if mode is None or listener not in mode.listeners:
        return
    mode._steps.come_back()
    try:
        mode.settle(listener)
    except Exception as error:
        listener.on_missed(Missed.here("the end of a block", described_error(error)))
    mode.listeners.remove(listener)
    mode._refresh_flags()
    if not mode.listeners:
        _thread.mode = None
        mode.__dict__.pop("__torch_function__", None)
        recent_copies.clear()
        try:
            mode._steps.stop()
        finally:
            mode._stack.close()


def functions_ran() -> bool:
    """Whether any torch function has run in this thread since the mode was entered."""
    return _thread.mode is not None and bool(_thread.mode._readers)


def active_mode() -> RecordingMode | None:
    """The mode of this thread, unless it is paused."""
    mode = _thread.mode
    return None if mode is None or mode.pause_depth else mode


FAST = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer)


@RefcountedContext
class _FastPathsStay:
    """nn.TransformerEncoder takes its fast path only where no torch function is overridden: our mode overrides none."""

    def __enter__(self) -> None:
        self.asked = torch.overrides.has_torch_function
        asked = self.asked

        def has_torch_function(tensors: Any) -> bool:
            if torch.compiler.is_compiling():  # torch.export(strict=True) reads this code
                return asked(tensors)
            running = None if _thread.mode is None else innermost_module()
            if _thread.mode is not None:
                _thread.mode._steps.come_back()  # a higher-order operator asks here
            if _thread.mode is None or not isinstance(running, FAST):
                return asked(tensors)
            if any(listener.may_edit(running) for listener in _thread.mode.listeners):
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
