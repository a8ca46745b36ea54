"""Code inside a block that a function mode cannot see: TorchScript, CUDA graphs, threads. Each is reported as missed.

A script or a graph shows no function to Python, so whether it attends is not known. A thread has torch function modes
of its own; one that the block starts has a mode that only looks for attention.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, wraps
from threading import Thread, local
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.torch_private import script_method

from ...missed import Missed
from ..calls import Call
from ..function_mode import InterventionResult, RecordingMode, active_mode, switches
from ..module_stack import modules_running, started_by
from ..refcounted_context import RefcountedContext

HIDDEN = {
    "TorchScript": (torch.jit.ScriptFunction, "__call__"),
    "TorchScript's forward": (script_method, "__call__"),
    "torch.cuda.CUDAGraph.replay": (torch.cuda.CUDAGraph, "replay"),
}


class _Here(local):
    watched = False  # whether the block that records has started this thread


_here = _Here()


def is_watched() -> bool:
    """Whether attention in this thread is already reported."""
    return _here.watched


@switches.append
@RefcountedContext
@contextmanager
def _hidden_code_told() -> Iterator[None]:
    before = {name: getattr(owner, method) for name, (owner, method) in HIDDEN.items()}
    start, submit = Thread.start, ThreadPoolExecutor.submit
    for name, (owner, method) in HIDDEN.items():
        setattr(owner, method, _told(name, before[name]))
    Thread.start = _watched(start)  # type: ignore[method-assign, assignment]
    ThreadPoolExecutor.submit = _watched_pool(submit)  # type: ignore[method-assign]
    try:
        yield
    finally:
        ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]
        Thread.start = start  # type: ignore[method-assign]
        for name, (owner, method) in HIDDEN.items():
            setattr(owner, method, before[name])


_told_runs: dict[str, tuple[Any, Any]] = {}  # by name: what it was made of, and the wrapper


def _told(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    known = _told_runs.get(name)
    if known is not None and known[0] is run:
        return known[1]

    @wraps(run)
    def runs(self: Any, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        if mode is not None and (_may_attend(self) or _takes_scores(mode, args)):
            own = getattr(self, "name", "")
            mode.miss(f"{name} {own}" if own and own != "forward" else name, "not visible: it runs without Python")
        return run(self, *args, **kwargs)

    _told_runs[name] = run, runs
    return runs


def _may_attend(code: Any) -> bool:
    """Whether TorchScript normalises something, by the operators of its graph; a graph of CUDA does not say. Gates of
    sigmoids and exponentials that no product or sum is made with are none."""
    graph = getattr(code, "inlined_graph", None) if hasattr(code, "inlined_graph") else getattr(code, "graph", None)
    if graph is None:
        return True
    text = str(graph)
    if re.search(r"aten::(\w*softmax|\w*attention\w*)\b", text):
        return True
    normalises = re.search(r"aten::(exp2?|sigmoid|relu_?|clamp_?)\b", text)
    return bool(normalises and re.search(r"aten::(matmul|b?mm|b?add?b?mm|einsum|linear|tensordot|sum)\b", text))


def _takes_scores(mode: RecordingMode, args: tuple[Any, ...]) -> bool:
    """Whether a product of two activations, or weights, go in."""
    state = mode.traces.state
    return any(isinstance(x, Tensor) and (x in state.live.table or state.origins.of(x).product) for x in args)


@lru_cache(maxsize=16)
def _watched(start: Callable[[Thread], None]) -> Callable[[Thread], None]:
    """Thread.start: attention in the new thread is reported to the listeners of the starting one."""

    @wraps(start)
    def starts(self: Thread) -> None:
        mode = active_mode()
        if mode is not None:
            self.run = _told_of(mode, self.run)  # type: ignore[method-assign]
        start(self)

    return starts


@lru_cache(maxsize=16)
def _watched_pool(submit: Callable[..., Any]) -> Callable[..., Any]:
    """ThreadPoolExecutor.submit: its threads may be older than the block."""

    @wraps(submit)
    def submits(self: ThreadPoolExecutor, run: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        return submit(self, run if mode is None else _told_of(mode, run), *args, **kwargs)

    return submits


def _told_of(mode: RecordingMode, run: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for another thread: its attention is reported to the listeners of this one."""
    modules = tuple(reversed([*modules_running()]))

    def runs(*args: Any, **kwargs: Any) -> Any:
        if _here.watched or active_mode() is not None or not mode.listeners:
            return run(*args, **kwargs)
        teller, theirs = _Teller(mode), RecordingMode()
        theirs.listeners.append(teller)
        _here.watched = True
        try:
            with started_by(modules):
                with theirs:
                    out = run(*args, **kwargs)
                theirs.settle(teller)
                return out
        finally:
            _here.watched = False

    return runs


class _Teller:
    """The listener of a thread that a block started; it reports to the listeners of the block."""

    may_change = False

    def __init__(self, mode: RecordingMode):
        self.mode = mode  # of the thread that started this one

    def change(self, call: Call, changed: InterventionResult | None) -> InterventionResult | None:
        return None

    def on_call(self, call: Call, changed: InterventionResult | None, out: Any) -> None:
        self.mode.miss(call.kernel, "not visible: it runs in another thread")

    def on_missed(self, missed: Missed) -> None:
        for listener in self.mode.listeners:
            listener.on_missed(missed)

    def on_other(self, other: Missed) -> None:
        for listener in self.mode.listeners:
            listener.on_other(other)

    def may_edit(self, module: nn.Module) -> bool:
        return False
