"""Traces: attention that a model writes out by hand, followed from the normalisation to the product with the values.

Each function of torch that takes weights is one of these: it keeps them weights and says where their axes go
(`axis_flow`), it is a product (`products`), it ends them (a maximum, a loss, indices), or it is not followed; then what
it gives is followed as lost, and meeting values is counted as missed. So no trace ends without a word.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.torch_private import PLAIN, dispatches_itself, interpreter_stack, is_transformed, tracing, unwrapped

from ..inplace import writes
from .arguments import argument, tensors_in
from .axis_flow import RULES
from .contractions import READERS
from .divisions import DIVIDE, divided, remember_sum
from .function_names import torch_name
from .function_table import DROPOUT, ELEMENTWISE, SAME_AXES, SUMS, VIEWS
from .origins import MADE, PASSED_ON
from .passages import carry, set_item
from .products import product, products_without_weights
from .starts import SOFTMAX, STARTS, started
from .state import State
from .step import Followed, TracerStep
from .sums import summed

if TYPE_CHECKING:
    from ..function_mode import RecordingMode

MEETS = frozenset(READERS) | {"mul", "addcmul"}


def starts(func: Any) -> bool:
    """Whether a trace may start at a function."""
    return torch_name(func) in STARTS


def noted(func: Any) -> str:
    """The name of a function of which no more is to be known while no weights are followed than what it was given."""
    name = torch_name(func)
    noted = (name in MADE and name not in READERS) or (name in PASSED_ON and name not in SUMS)
    return name if (noted or name == "linear") and not writes(func) else ""


def observed(func: Any) -> bool:
    """Whether something is to be known of a function's output also while no weights are followed."""
    name = torch_name(func)
    return name in MADE or name in PASSED_ON or name in SUMS or name == "logsumexp" or (bool(name) and writes(func))


class Tracer:
    """The traces of one thread."""

    def __init__(self) -> None:
        self.state = State()

    def observe(
        self, mode: "RecordingMode", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """A function ran while no weights were traced."""
        name = torch_name(func)
        if name in READERS and not (name == "linear" and len(args) > 1 and isinstance(args[1], torch.nn.Parameter)):
            if tracing():
                return
            products_without_weights(self.state, TracerStep(mode, name, func, args, kwargs))
        if writes(func) and args and isinstance(args[0], Tensor):
            self.state.origins.write(args[0])
        if name in MADE or name in PASSED_ON:
            self.state.origins.see(name, func, args, kwargs, out)
        if name in SUMS or name == "logsumexp":
            remember_sum(self.state, TracerStep(mode, name, func, args, kwargs), out)

    def follow(self, mode: "RecordingMode", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function that may consume or produce weights."""
        state, name = self.state, torch_name(func)
        step = TracerStep(mode, name, func, args, kwargs, state.live)
        if interpreter_stack() is not None and name in READERS:
            self._inside_a_transform(step)
        if not step.weights and name in MEETS and len(state.live):
            step.weights = [
                Followed(place, x, trace)
                for place, x in tensors_in(args, kwargs)
                if (trace := state.live.alias(x)) is not None
            ]
        stale = any(state.live.stale(one.tensor, one.trace) for one in step.weights)
        if step.written is not None:
            state.origins.write(step.written)
        if step.written is not None and len(state.live):
            state.live.spare(step.written, name in RULES or name == "setitem", name in DROPOUT)
        if name in READERS:
            return product(state, step)
        if name == "setitem":
            return set_item(state, step)
        if step.weights and (name in SUMS or name == "mean"):
            call = summed(state, step)
            if call is not None:
                return mode.dispatch(call, step.run)
        if len(state.late) and name in DIVIDE:
            made = divided(state, step)
            if made is not None:
                return made[0]
        before = self._written_into(step)
        out = step.run()
        if name in MADE or (name in PASSED_ON and self._origin_known(args, kwargs)):
            state.origins.see(name, func, args, kwargs, out)
        if name in STARTS and self._start(step, out):
            return out
        if name in SUMS or name == "logsumexp":
            remember_sum(state, step, out)
        if step.weights:
            carry(state, step, out, before, stale)
        if len(state.late) and (name in ELEMENTWISE or name in VIEWS or name in SAME_AXES or name == "getitem"):
            state.late.carry(name, step.tensors, out)
        return out

    def _origin_known(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        known = self.state.origins.known
        for x in args[:3]:
            if isinstance(x, (list, tuple)):
                if any(known(y) for y in x):
                    return True
            elif known(x) or isinstance(x, torch.nn.Parameter):
                return True
        return bool(kwargs) and any(known(x) for x in kwargs.values())

    def _inside_a_transform(self, step: TracerStep) -> None:
        """In torch.vmap or torch.func.grad, weights that came from outside are wrapped: their products are told."""
        for x in step.tensors:
            trace = self.state.live.get(unwrapped(x)) if is_transformed(x) else None
            if trace is not None and trace.normalised:
                self.state.late.settle_one(trace.waits)
                step.report(trace, "inside a transform of torch.func, where weights cannot be followed")
                return

    def _written_into(self, step: TracerStep) -> Tensor | None:
        """A copy of what weights are written into, where those that are followed are others than the model's own."""
        if step.written is None or all(one.same for one in step.weights):
            return None
        if any(one.tensor is step.written for one in step.weights):
            return None
        return step.written.detach().clone()

    def _start(self, step: TracerStep, out: Any) -> bool:
        """Whether weights began here."""
        found = step.weights[0] if step.weights else None
        if found is not None and step.name in ("exp", "exp2") and found.trace.how == "log":
            weights = out if found.same or out is found.tensor else found.trace.weights.detach().exp()
            self.state.live.note(out, replace(found.trace, weights=weights, how="softmax"))
            return True
        if found is not None and step.name == "normalize":
            return self._normalised(step, found, out)
        trace = started(step.name, step.args, step.kwargs, out, self.state.origins)
        if trace is None or (found is not None and step.name not in SOFTMAX):
            return False
        if step.name in SOFTMAX and interpreter_stack() is not None and self._of_scores(step):
            trace.waits = step.waits(f"{trace.how} inside a transform of torch.func, after which it is not followed")
            self.state.late.waiting[trace.waits] = None
        elif (
            trace.how == "softmax"
            and not trace.of_parameters
            and type(out) not in PLAIN
            and dispatches_itself(type(out))
        ):
            trace.waits = step.waits(f"softmax of a {type(out).__name__}, which answers torch's operators itself")
            self.state.late.waiting[trace.waits] = None
        if step.mode.wants_peaks and trace.how == "softmax" and trace.axis is not None and not trace.lost:
            trace.peak = _largest(argument(step.args, step.kwargs, 0, "input", "self", "logits"), trace.axis)
        self.state.live.note(out, trace)
        return True

    def _of_scores(self, step: TracerStep) -> bool:
        """Whether a normalisation inside a transform is of a product of two activations, made inside or outside."""
        x = step.tensors[0]
        return any(self.state.origins.of(y).product for y in (x, unwrapped(x) if is_transformed(x) else x))

    def _normalised(self, step: TracerStep, found: Followed, out: Tensor) -> bool:
        """F.normalize(p=1) of exponentials and the like."""
        trace = found.trace
        power = argument(step.args, step.kwargs, 1, "p", default=2.0)
        if power != 1 or trace.axis is not None or not found.same:
            return False
        axis = int(argument(step.args, step.kwargs, 2, "dim", default=1)) % out.ndim
        made = replace(trace, weights=out, how="normalize", axis=axis, of_parameters=axis in trace.features)
        self.state.live.note(out, made)
        return True


@torch.no_grad()
def _largest(scores: Tensor, axis: int) -> Tensor | None:
    """The largest score of each row, with an axis of 1 for the keys."""
    if scores.layout != torch.strided or scores.is_nested or not scores.shape[axis]:
        return None
    return scores.detach().amax(axis, keepdim=True)
