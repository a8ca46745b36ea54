"""Functions between the normalisation and the product: a trace continues, ends, or is lost and reported."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .arguments import tensors_out, with_tensor
from .axis_flow import RULES, Flow, flows, followed, merged_axis, reduced_axes, split_axis
from .function_table import (
    CASTS,
    CONVOLUTIONS,
    CUTS,
    DROPOUT,
    ENDS,
    GROUPED_SUMS,
    LEAVES,
    REDUCTIONS,
    RUNNING_SUMS,
    VIEWS,
)
from .late_division import UNDIVIDED, Unnormalised
from .products import takes_weights_and_activations
from .state import State
from .step import Followed, TracerStep
from .trace import UNKNOWN_VERSIONS, Factors, Merged, Trace

ADDS = frozenset(("add", "sub", "addcmul"))
KEEPS_AXES = DROPOUT | CASTS
KEEPS_VALUES = VIEWS | DROPOUT | CASTS | {"getitem"}


def carry(state: State, step: TracerStep, out: Any, before: Tensor | None, stale: bool) -> None:
    """Weights went through a function. before: what it wrote them into; stale: they were changed behind our back."""
    outs = tensors_out(out)
    if step.name in LEAVES:
        for one in step.weights:
            if one.trace.normalised:
                state.live.keep(one.tensor, one.trace)
        return
    if step.name == "set_data" and isinstance(step.args[0], Tensor):
        state.live.note(step.args[0], step.weights[-1].trace)
        return
    if step.name in ENDS or not any(_holds_numbers(y) for y in outs):
        return
    found = min(step.weights, key=lambda one: (not one.trace.normalised, bool(one.trace.lost)))
    if step.name == "lerp" and found.place in ((2,), ("weight",)) and takes_weights_and_activations(state, step):
        return
    if step.name == "mul" and _gates(state, step, found):
        return
    if step.name == "logsumexp" and found.trace.how == "log" and found.trace.lost:
        step.report(found.trace, "a sum over keys in logarithms", found.trace.lost)
        return
    if step.name in GROUPED_SUMS:
        if found.trace.factors is not None and found.trace.normalised:
            step.report(found.trace, "products of weights and values are added up by an index")
            return
        for y in outs:
            state.late.summed(y, found.tensor, (0,), found.trace.root)
    if step.name in REDUCTIONS and found.trace.lost and found.trace.factors is not None:
        return  # a sum of products, which was told of
    made = flows(step.name, step.func, step.args, step.kwargs, found.place, found.tensor, out)
    if made is None or len(made) != len(outs):
        _lose(state, step, found, outs)
        return
    shadows = [found.trace.weights] * len(outs) if step.name in DROPOUT else tensors_out(step.shadow(out, before))
    for y, flow, weights in zip(outs, made, shadows, strict=True):
        if _holds_numbers(y):
            _go_on(state, step, found, y, flow, weights)
            after = state.live.get(y)
            if stale and after is not None:
                after.versions = UNKNOWN_VERSIONS
    if step.written is not None and not any(one.tensor is step.written for one in step.weights):
        _lose_base(state, step.written, found.trace, step.operator)


def _gates(state: State, step: TracerStep, found: Followed) -> bool:
    """sigmoid(x) * tanh(y), element by element, of products of activations: a gate of WaveNet's kind, no weights."""
    if found.trace.how != "sigmoid" or found.trace.lost or found.trace.factors is not None:
        return False
    others = [x for x in step.tensors if x is not found.tensor]
    if len(others) != 1 or others[0].shape != found.tensor.shape:
        return False
    origin = state.origins.of(others[0])
    return origin.product and origin.bent and not any(0 in x.stride() for x in (others[0], found.tensor))


def _holds_numbers(y: Tensor) -> bool:
    return y.is_floating_point() or y.is_complex()


def _go_on(state: State, step: TracerStep, found: Followed, y: Tensor, flow: Flow, weights: Tensor) -> None:
    x, trace = found.tensor, found.trace
    axis, lost, part, merged = None, trace.lost, trace.part, None
    if trace.merged is not None:
        axis, merged = split_axis(flow, trace.merged, y) if step.name in VIEWS else _stays(flow, trace.merged, x, y)
        lost = "" if axis is not None else lost
    elif trace.axis is not None:
        axis = followed(flow, trace.axis, x, y)
        if axis is None and not lost:
            first_choice = trace.of_parameters and step.name in ("max", "amax")  # of a router
            reduced = reduced_axes(step.func, step.args, step.kwargs, x) if step.name in REDUCTIONS else None
            if trace.axis in (reduced or ()) and not first_choice:
                return  # a statistic of the row
            lost, merged = step.operator, merged_axis(flow, trace.axis, x) if step.name in VIEWS else None
        elif axis is not None and x.shape[trace.axis] == 1 < y.shape[axis]:  # stretched along another axis
            axis, lost = None, lost or f"{step.operator} of one key"
        elif axis is not None:
            part = _part(step, trace, x.shape[trace.axis], y.shape[axis])
    factors = _factors(state, step, found, y)
    grown = factors is not None and factors.grown and not factors.constant
    added = step.name == "addcmul" or (step.name in ADDS and trace.factors is not None)
    if y.is_complex() or (
        trace.how == "log" and step.name in ADDS and y.numel() > x.numel()
    ):  # a product, of logarithms
        axis, lost = None, lost or step.operator
    apart = trace.axis is None and any(
        one.tensor is not x
        and one.trace.root is trace.root
        and one.trace.factors is not None
        and one.trace.factors.grown
        for one in step.weights
    )
    if (lost or apart) and grown and trace.normalised and added:
        reason = "the weights are lost here, and then products with values are added up" if lost else "key by key"
        step.report(trace, reason, lost or None)
        return
    if grown and trace.normalised and step.name in RUNNING_SUMS:
        step.report(trace, "a running sum of weights times values")
        return
    if trace.how == "exp" and factors is not None and not factors.constant and factors is not trace.factors:
        waits = trace.product and grown and trace.factors is None
        state.late.products[y] = Unnormalised(met=state.late.wait(step.waits(UNDIVIDED)) if waits else frozenset())
    features = frozenset(i for i, drawn in enumerate(flow) if drawn and all(a in trace.features for a in drawn))
    spread = trace.spread or (step.name in ("repeat", "tile", "expand", "expand_as") and y.numel() > x.numel())
    peak = trace.peak if step.name in KEEPS_AXES and x.shape == y.shape else None
    made = replace(
        trace,
        weights=weights,
        axis=axis,
        features=features,
        lost=lost,
        merged=merged,
        part=part,
        factors=factors,
        peak=peak,
        spread=spread,
    )
    state.live.note(y, made)


def _stays(flow: Flow, merged: Merged, x: Tensor, y: Tensor) -> tuple[None, Merged | None]:
    axis = followed(flow, merged.axis, x, y)
    if axis is None or x.shape[merged.axis] != y.shape[axis]:
        return None, None
    return None, replace(merged, axis=axis)


def _part(step: TracerStep, trace: Trace, had: int, has: int) -> str:
    """Of a row that was cut: how many keys are left, unless those are most of them (a sink that is dropped)."""
    if has >= had:
        return "" if step.name == "cat" else trace.part
    if step.name in CUTS:
        return f"{has} of {had} keys"
    index = step.args[1] if step.name == "getitem" else ()
    picked = any(isinstance(i, (Tensor, list)) for i in (index if isinstance(index, tuple) else (index,)))
    if step.name not in ("getitem", "narrow", "slice") or picked or 2 * has > had:
        return trace.part
    return f"{has} of {had} keys"


def _factors(state: State, step: TracerStep, found: Followed, y: Tensor) -> Factors | None:
    """Weights and values of a product that is not summed yet."""
    x, trace = found.tensor, found.trace
    old = trace.factors
    if old is not None and step.name in KEEPS_VALUES:
        return _viewed(step, found, old) if step.name in VIEWS | {"getitem"} else old
    if old is not None and old.grown:
        return old.after(step.operator)
    values = _values(state, step, x, trace) if step.name in ("mul", "addcmul") else None
    if values is None:
        return None
    origins, changed = state.origins, "" if step.name == "mul" else step.operator
    return Factors(
        trace.weights.detach().expand(y.shape),
        values.detach().expand(y.shape),
        x,
        grown=y.numel() > x.numel() or (trace.spread and bool(trace.lost)),
        changed=changed,
        constant=origins.constant(values),
        sampled=origins.of(values).sampled,
    )


def _values(state: State, step: TracerStep, x: Tensor, trace: Trace) -> Tensor | None:
    """What else a product was made with, if that may be values."""
    others = [y for y in step.tensors if y is not x][-1:]
    if not others or others[0].numel() < 2 or not others[0].is_floating_point():
        return None
    theirs = state.live.get(others[0])
    if theirs is not None and (theirs.how not in ("exp", "gate") or not trace.normalised):
        return None
    return others[0]


@torch.no_grad()
def _viewed(step: TracerStep, found: Followed, old: Factors) -> Factors:
    parts: list[Any] = []
    if old.weights.shape != found.tensor.shape:
        return old.after(step.operator)
    for part in (old.weights, old.values):
        try:
            parts.append(with_tensor(step.func, step.args, step.kwargs, found.place, part))
        except RuntimeError:  # a view of an expanded tensor
            parts.append(with_tensor(step.func, step.args, step.kwargs, found.place, part.contiguous()))
    if not all(isinstance(part, Tensor) for part in parts):
        return old.after(step.operator)
    return replace(old, weights=parts[0], values=parts[1], root=None)


def _lose(state: State, step: TracerStep, found: Followed, outs: list[Tensor]) -> None:
    """A function that is not followed: it may have been the product itself; if not, what it gives is lost weights."""
    trace = found.trace
    if not trace.normalised:
        return
    convolved = step.name in CONVOLUTIONS and found.place in ((0,), ("input",))  # a map, with a kernel
    if step.name not in RULES or step.name in CONVOLUTIONS:
        if takes_weights_and_activations(state, step):
            return
        if trace.factors is not None and trace.factors.grown and not trace.factors.constant:
            step.report(trace, "a product with values goes into a function that is not followed")
            return
        if not convolved and any(x.ndim > 1 and state.origins.constant(x) for x in step.beside):
            step.other(f"{trace.how}, and a function of them and a parameter")
            return
    for y in outs:
        if _holds_numbers(y):
            lost = trace.lost or step.operator
            state.live.note(y, replace(trace, weights=y, axis=None, features=frozenset(), lost=lost, merged=None))


def _lose_base(state: State, written: Tensor, trace: Trace, operator: str) -> None:
    """Weights that were written into a view are in the tensor that it is a view of, too."""
    base = written._base
    if base is not None and base is not written and base not in state.live.table and trace.normalised:
        state.live.note(base, Trace(base.detach(), trace.how, None, root=trace.root, lost=operator))


def set_item(state: State, step: TracerStep) -> Any:
    """target[index] = value, where one of them is weights."""
    target, index, value = step.args
    trace = state.live.get(target)
    other = state.live.get(value) if isinstance(value, Tensor) else None
    if trace is None and other is not None and other.normalised:
        before = None if other.weights is value else target.detach().clone()
        out = step.run()
        _put(state, step, other, before)
        return out
    out = step.run()
    if trace is not None and trace.weights is not target:
        with torch.no_grad():
            weights = trace.weights.detach().clone()
            weights[index] = value if other is None else other.weights
        state.live.note(target, replace(trace, weights=weights))
    return out


@torch.no_grad()
def _put(state: State, step: TracerStep, trace: Trace, before: Tensor | None) -> None:
    """Weights into a part of a buffer; `before` is a copy of it where the weights from before dropout are others."""
    target, index, value = step.args
    weights = target
    if before is not None:
        weights = before
        weights[index] = trace.weights
    bare = target.detach()
    there = bare[index]
    made = flows("getitem", torch.Tensor.__getitem__, (bare, index), {}, (0,), bare, there)
    axis = None
    if made is not None and trace.axis is not None:
        at = trace.axis + there.ndim - value.ndim
        drawn = made[0][at] if 0 <= at < there.ndim else ()
        axis = drawn[0] if len(drawn) == 1 else None
    lost = trace.lost or ("" if axis is not None or trace.axis is None else step.operator)
    put = replace(trace, weights=weights, axis=axis, features=frozenset(), lost=lost, merged=None, factors=None)
    state.live.note(target, put)
    _lose_base(state, target, trace, step.operator)
