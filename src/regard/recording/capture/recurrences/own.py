"""Our own linear_attend: what it returns is what is recorded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.core.attend import Attended
from regard.core.recurrent.attend import call_hooks
from regard.core.recurrent.implied_map import ImpliedMap

from ..function_mode import RecordingMode, active_mode, switches
from ..refcounted_context import RefcountedContext
from .recurrent_call import IN_A_STATE, RecurrentCall


def _capture_own(run: Callable[..., Attended], *given: Any) -> Attended:
    """Our own linear_attend(q, k, v, log_decay, beta, state, scale)."""
    mode = active_mode()
    if mode is None:
        return run(*given)

    def whole() -> Attended:
        with mode.paused():
            return run(*given)

    return mode.guarded("regard.linear_attend", lambda: _read_own(mode, given), whole)


def _read_own(mode: RecordingMode, given: tuple[Any, ...]) -> Attended:
    made: Attended = mode.run()
    v, state = given[2], given[5]
    if state is not None:
        mode.miss("regard.linear_attend", IN_A_STATE)
        return made
    assert isinstance(made.map, ImpliedMap)
    values = v.reshape(-1, made.map.heads, *v.shape[-2:])

    def give(weights: Tensor) -> Tensor:
        return (weights.to(v.dtype) @ values).reshape(v.shape)

    call = RecurrentCall(made.map, values, give, "regard.linear_attend")
    out = mode.dispatch(call, lambda: made.out)
    return made if call.changed is None else replace(made, out=out, map=call.changed.map)


@switches.append
@RefcountedContext
@contextmanager
def _linear_attend_captured() -> Iterator[None]:
    call_hooks.append(_capture_own)
    try:
        yield
    finally:
        call_hooks.remove(_capture_own)
