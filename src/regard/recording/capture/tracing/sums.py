"""A product of weights and values that is summed: attention, if the sum is over the keys."""

from torch import Tensor

from ..calls import WeightedCall
from .axis_flow import reduced_axes
from .state import State
from .step import TracerStep
from .weighing import summed_call


def summed(state: State, step: TracerStep) -> WeightedCall | None:
    """The call that this sum is; None of any other, with a word where it is one that has no map."""
    found = step.weights[0]
    trace, x = found.trace, found.tensor
    factors, axes = trace.factors, reduced_axes(step.func, step.args, step.kwargs, x)
    if factors is None or axes is None or not trace.normalised or (len(axes) == x.ndim and x.ndim > 1):
        return None
    axis = axes[0] if trace.axis is None and not trace.lost else trace.axis
    if not trace.lost and (axis not in axes or (trace.axis is None and axis in trace.features)):
        return None
    if not factors.grown and _is_mask(factors.values):
        return None
    if factors.constant and not factors.grown:
        step.other(f"{trace.how}, a product with a parameter or constant and a sum")
        return None
    if trace.of_parameters and factors.sampled:
        step.miss(f"{trace.how}: weights over places sampled from a feature map")
        return None
    state.late.settle_one(trace.waits)
    problem = ""
    if trace.lost:
        problem = "the weights are lost here, and then products with values are summed"
    elif step.name != "sum" or len(axes) != 1:
        problem = f"a product with values and {step.name} over {len(axes)} axes"
    elif factors.changed:
        problem = f"{factors.changed} between a product with values and their sum"
    elif state.live.stale(x, trace):
        problem = "a product with values that was changed in place"
    elif trace.part:
        problem = f"only {trace.part} of a row are in this product"
    if problem or trace.of_parameters:
        step.report(trace, problem, trace.lost or None)
        return None
    assert axis is not None
    return summed_call(step, found, axis)


def _is_mask(values: Tensor) -> bool:
    return bool(((values == 0) | (values == 1)).all())
