"""What becomes weights by a division or a difference: x / sum(x), s - logsumexp(s), (exp(s) @ v) / sum(exp(s))."""

from typing import Any

import torch
from torch import Tensor

from .arguments import argument
from .axis_flow import reduced_axes
from .late_division import LATE, Total, Unnormalised
from .state import State
from .step import TracerStep
from .trace import Trace

DIVIDE = frozenset(("div", "mul", "sub"))


def remember_sum(state: State, step: TracerStep, out: Any) -> None:
    """A sum of weights, of exponentials or of scores may be what they are divided by."""
    x = argument(step.args, step.kwargs, 0, "input", "self")
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return
    trace, logarithm = state.live.get(x), step.name == "logsumexp"
    if not logarithm:
        product = state.late.products.get(x)
        if product is not None:
            state.late.products[out] = Unnormalised(met=product.met)
            return
        origin = state.origins.of(x)
        if trace is None and not origin.product and not origin.features:
            return
    axes = reduced_axes(step.func, step.args, step.kwargs, x)
    if not logarithm and trace is None and not origin.product and not origin.features.issuperset(axes or ()):
        return
    if logarithm and state.origins.of(x).product:
        state.energies = True
    if axes is not None:
        scores = trace is not None and trace.product
        state.late.summed(out, x, axes, None if trace is None else trace.root, logarithm, scores)


def divided(state: State, step: TracerStep) -> tuple[Any] | None:
    """What comes out of a division that normalises something; None of any other, which has not run."""
    read = state.late.divisor(step.name, step.args, step.kwargs)
    if read is None:
        return _of_running_sums(state, step)
    x, total = read
    if step.name == "sub":
        return _difference(state, step, x, total)
    product, trace = state.late.products.get(x), state.live.get(x)
    if product is not None and (trace is None or not trace.normalised) and total.source() is not x:
        state.late.settle(product, *map(state.late.products.get, step.tensors))
        return _late(state, step, product, total)
    return _early(state, step, x, total)


def _early(state: State, step: TracerStep, x: Tensor, total: Total) -> tuple[Any] | None:
    """x / sum(x)"""
    trace, origin = state.live.get(x), state.origins.of(x)
    if trace is not None and trace.normalised and trace.axis is not None and trace.axis == total.axis:
        return None  # normalised a second time over the same axis: followed as a division
    if trace is None and not origin.product and total.axis not in origin.features:
        return None
    if total.source() is not x and (trace is None or total.root is not trace.root):
        return None
    out = step.run()
    axis = total.axis if tuple(x.shape) == total.shape else None
    features = origin.features if trace is None else trace.features
    made = Trace(step.shadow(out), "a division by the sum", axis, features)
    made.of_parameters = axis in features and not origin.product
    made.lost = "" if axis is not None else step.operator
    state.live.note(out, made)
    return (out,)


def _difference(state: State, step: TracerStep, x: Tensor, total: Total) -> tuple[Any] | None:
    """s - logsumexp(s): the logarithm of weights."""
    if not total.logarithm and total.root is None:
        return None
    out, origin = step.run(), state.origins.of(x)
    known = total.logarithm and total.axis is not None and (total.source() is x or _sums_to_one(out, total))
    if known or origin.product:
        made = Trace(out, "log", total.axis if known else None, origin.features)
        made.of_parameters = state.origins.parametric(x, total.axis)
        made.lost = "" if known else step.operator
        state.live.note(out, made)
    return (out,)


@torch.no_grad()
def _sums_to_one(logarithms: Tensor, total: Total) -> bool:
    """Whether these are logarithms of rows that sum to one: of the same scores, which were computed twice."""
    if tuple(logarithms.shape) != total.shape or total.axis is None:
        return False
    apart = logarithms.detach().logsumexp(total.axis).nan_to_num(0.0).abs().amax()
    return bool(apart < 100 * torch.finfo(logarithms.dtype).eps)


def _late(state: State, step: TracerStep, product: Unnormalised, total: Total) -> tuple[Any]:
    """(exp(s) @ v) / sum(exp(s))"""
    trace, below = product.trace, next(x for x in step.tensors if state.late.totals.get(x) is total)
    fits = trace is not None and total.root is trace.root and below.ndim == trace.weights.ndim
    if trace is None or not fits or total.axis != trace.weights.ndim - 1 or below.shape[-1] != 1:
        step.miss(LATE)
        return (step.run(),)
    with torch.no_grad():
        weights = trace.weights * below if total.inverse else trace.weights / below
    return (step.mode.dispatch(product.call(weights), step.run),)


def _of_running_sums(state: State, step: TracerStep) -> tuple[Any] | None:
    """A product of exponentials with values, divided by something else that is made of exponentials."""
    given = step.tensors
    if step.name == "div" and len(given) > 1 and given[0] not in state.late.products:
        state.late.settle(state.late.products.get(given[1]))  # a sum by a product with ones
    if step.name != "div" or len(given) < 2 or given[0] not in state.late.products:
        return None
    below = state.live.get(given[1])
    if given[1] not in state.late.products and (below is None or below.how != "exp"):
        return None
    state.late.settle(*map(state.late.products.get, given))
    step.miss("exponentials and their products with values, added up one by one and divided at the end")
    return (step.run(),)
