"""Products with weights: attention, another use of them, or a trace that continues."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from ..calls import WeightedCall
from .arguments import with_tensor
from .contractions import Contraction, Operand, contraction
from .late_division import LATE, UNDIVIDED, Total, Unnormalised
from .state import State
from .step import Followed, TracerStep
from .trace import Trace
from .weighing import Weighing, batched, contracted_letter


def product(state: State, step: TracerStep) -> Any:
    """Run a product and classify it."""
    out = _told(state, step)
    if isinstance(out, Tensor) and "out" not in step.kwargs:
        state.origins.see(step.name, step.func, step.args, step.kwargs, out)
        if any(one.trace.normalised for one in step.weights):  # what attention gives is no score
            state.origins.put(out, replace(state.origins.of(out), product=False, bent=False))
    return out


def _told(state: State, step: TracerStep) -> Any:
    made = contraction(step.name, step.args, step.kwargs) if step.weights or len(state.late) else None
    if step.weights and made is None:
        takes_weights_and_activations(state, step)
    elif step.weights and made is not None and len(made.operands) == 1:
        return _of_one_operand(state, step, made)
    elif step.weights and made is not None:
        weighed = _weigh(state, step, made)
        if weighed is not None:
            return weighed[0]
    elif made is not None:
        operands = [operand.tensor for operand in made.operands]
        products = [product for x in operands if (product := state.late.products.get(x)) is not None]
        totals = [total for x in operands if (total := state.late.totals.get(x)) is not None]
        if products and totals:
            scores = any(each.met for each in products)
            state.late.settle(*products)
            step.miss(LATE if scores else "linear attention: exponentials of features, with values first")
        elif totals and _summed_over(state, made, totals):
            step.miss("a sum of exponentials, or what was made of it, and a product with values")
    out = step.run()
    if not step.weights:
        products_without_weights(state, step)
    if made is not None and len(state.late):
        state.late.carry("add", [operand.tensor for operand in made.operands], out)
    return out


def _summed_over(state: State, made: Contraction, totals: "list[Total]") -> bool:
    """Whether a sum of exponentials of scores meets activations over one of its own axes: 1 / sum_l exp(s_l - s_j)."""
    for operand in made.operands:
        found = state.late.totals.get(operand.tensor)
        if found is None or not found.of_scores:
            continue
        others = [x for x in made.operands if x is not operand and state.origins.activation(x.tensor)]
        gone = [x for x in operand.long() if x not in made.out]
        if any(x in other.letters for x in gone for other in others):
            return True
    return False


def products_without_weights(state: State, step: TracerStep) -> None:
    """Attention that never has weights: features of keys meet values first, or scores are not normalised at all."""
    origins, given = state.origins, step.tensors[:3]
    if any(origins.of(x).state for x in given) and not any(origins.constant(x) for x in given):
        step.miss("linear attention: keys met values first, so there are no weights")
        return
    made = contraction(step.name, step.args, step.kwargs) if any(origins.of(x).bent for x in given) else None
    if made is None or (step.name == "linear" and given[0].ndim > 2):  # one matrix for all items: a layer's
        return
    for operand in made.operands:
        origin = origins.of(operand.tensor)
        summed = [i for i, letter in enumerate(operand.letters) if letter not in made.out]
        beside = [other.tensor for other in made.operands if other is not operand]
        if origin.bent and not origin.features.issuperset(summed) and any(map(origins.activation, beside)):
            step.miss("a function of scores that does not normalise them, and a product with values")
            return


def takes_weights_and_activations(state: State, step: TracerStep) -> bool:
    """A function that is not followed, and that may be the product of weights and values itself."""
    values = [x for x in step.beside if x.ndim and x.numel() > 1 and state.origins.activation(x)]
    trace = next((one.trace for one in step.weights if one.trace.normalised), None)
    if trace is None or not values:
        return False
    step.report(trace, "a function that is not followed takes weights and other activations")
    return True


def _weigh(state: State, step: TracerStep, made: Contraction) -> tuple[Any] | None:
    """What comes out; None where this product has nothing to say, and has not run."""
    for found in sorted(step.weights, key=lambda one: not one.trace.normalised):
        operand = next((x for x in made.operands if x.place == found.place), None)
        if operand is None:
            continue
        others = [x for x in made.operands if x is not operand]
        activations = [x for x in others if state.origins.activation(x.tensor)]
        if not found.trace.normalised:
            return _of_exponentials(state, step, found, operand, made, activations)
        merged = found.trace.merged
        if merged is not None and not activations and operand.letters[merged.axis] in made.out:
            return _mixed(state, step, found, operand, made)
        if found.trace.lost:
            factors = found.trace.factors
            if not activations and (factors is None or not factors.grown or factors.constant):
                if any(state.origins.constant(x.tensor) and x.tensor.ndim > 1 for x in others):
                    step.other(f"{found.trace.how}, then {found.trace.lost}, and a product with a parameter")
                continue
            state.late.settle_one(found.trace.waits)
            then = f"the weights are lost here, and then {step.operator} with values"
            step.report(found.trace, then, found.trace.lost)
            return (step.run(),)
        letter = contracted_letter(operand, found.trace, made)
        if letter is None:
            continue
        if letter in made.out:
            return _beside(state, step, found, operand, made, activations)
        weighing = Weighing(made, operand, found.trace, letter)
        if weighing.values:
            return _over_the_keys(state, step, found, weighing, activations)
    return None


def _over_the_keys(
    state: State, step: TracerStep, found: Followed, weighing: Weighing, activations: list[Operand]
) -> tuple[Any]:
    """Weights and values over the axis of the keys."""
    trace, operand = found.trace, weighing.operand
    state.late.settle_one(trace.waits)
    origins = [state.origins.of(x.tensor) for x in weighing.values]
    if trace.axis is None and operand.letters.index(weighing.letter) in trace.features:
        step.other(f"{trace.how} of a product of activations, over outputs of a layer")
    elif not any(x in activations for x in weighing.values):
        step.other(f"{trace.how}, and a product with a parameter or constant")
    elif trace.of_parameters and any(origin.state for origin in origins):
        step.miss(f"linear attention: {trace.how} over features, after keys met values")
    elif trace.of_parameters and any(origin.sampled for origin in origins):
        step.miss(f"{trace.how}: weights over places sampled from a feature map")
    elif trace.of_parameters or (reason := _refusal(state, found)):
        step.report(trace, "" if trace.of_parameters else reason)
    else:
        out = step.mode.dispatch(weighing.call(step, found), step.run)
        _compose(state, step, operand, weighing.made, out)
        return (out,)
    return (step.run(),)


def _refusal(state: State, found: Followed) -> str:
    """Why a product of weights and values gives no map; "" if it gives one."""
    trace = found.trace
    if state.live.stale(found.tensor, trace):
        return "a change in place that was not followed came in between"
    if trace.factors is not None and trace.factors.grown:
        return "a product with values goes into a second product before it is summed"
    return f"only {trace.part} of a row are in this product" if trace.part else ""


def _compose(state: State, step: TracerStep, operand: Operand, made: Contraction, out: Any) -> None:
    """Weights times weights are weights."""
    for found in step.weights:
        other = next((x for x in made.operands if x.place == found.place and x is not operand), None)
        trace = found.trace
        if other is None or trace.axis is None or not trace.normalised or trace.lost or not isinstance(out, Tensor):
            continue
        if other.letters[trace.axis] in made.out:
            moved = _moved(found, other, made)
            state.live.note(out, replace(trace, weights=step.shadow(out), factors=None, **moved))


def _moved(found: Followed, operand: Operand, made: Contraction) -> dict[str, Any]:
    """Where the axes of weights are in what comes out."""
    axis = None if found.trace.axis is None else made.out.index(operand.letters[found.trace.axis])
    letters = [operand.letters[i] for i in found.trace.features]
    return {"axis": axis, "merged": None, "features": frozenset(made.out.index(x) for x in letters if x in made.out)}


def _beside(
    state: State, step: TracerStep, found: Followed, operand: Operand, made: Contraction, activations: list[Operand]
) -> tuple[Any]:
    """The axis of the keys is not summed: heads are mixed, or weights meet values over another axis."""
    out, trace = step.run(), found.trace
    shared = {letter for x in activations for letter in x.letters}
    over_keys = {x for other in activations for x in other.letters if _axis_letter(operand, trace) in other.letters}
    for i, letter in enumerate(operand.letters):
        tokens = i not in trace.features or letter in over_keys
        if letter not in made.out and letter in shared and tokens and found.tensor.shape[i] > 1:
            step.report(trace, "normalised over one axis, and a product with values over another one")
            return (out,)
    if trace.of_parameters and trace.factors is not None and not activations:
        step.report(trace, "")  # experts' outputs, already weighed, go through another layer of theirs
    if isinstance(out, Tensor):
        _go_on(state, step, found, operand, made, out)
    return (out,)


def _mixed(state: State, step: TracerStep, found: Followed, operand: Operand, made: Contraction) -> tuple[Any]:
    """Heads are mixed while queries and keys are one axis."""
    out, trace = step.run(), found.trace
    if isinstance(out, Tensor) and trace.merged is not None:
        merged = replace(trace.merged, axis=made.out.index(operand.letters[trace.merged.axis]))
        moved = replace(trace, weights=step.shadow(out), merged=merged, features=frozenset(), factors=None)
        state.live.note(out, moved)
    return (out,)


def _axis_letter(operand: Operand, trace: Trace) -> Any:
    """The letter of the axis that the weights are normalised over."""
    return None if trace.axis is None else operand.letters[trace.axis]


def _go_on(state: State, step: TracerStep, found: Followed, operand: Operand, made: Contraction, out: Tensor) -> None:
    trace = found.trace
    factors = None if trace.factors is None else trace.factors.after(step.operator)
    moved = _moved(found, operand, made)
    state.live.note(out, replace(trace, weights=step.shadow(out), factors=factors, **moved))


def _of_one_operand(state: State, step: TracerStep, made: Contraction) -> Any:
    """einsum of one: a transpose or a sum."""
    found, operand = step.weights[0], made.operands[0]
    trace = found.trace
    gone = tuple(i for i, letter in enumerate(operand.letters) if letter not in made.out)
    out = step.run()
    if trace.factors is not None and trace.factors.grown and trace.axis in gone and trace.normalised:
        step.report(trace, "a product with values is summed by einsum")
    elif gone and trace.axis in (None, *gone):
        state.late.summed(out, found.tensor, gone, trace.root)
    else:
        _go_on(state, step, found, operand, made, out)
    return out


def _of_exponentials(
    state: State, step: TracerStep, found: Followed, operand: Operand, made: Contraction, activations: list[Operand]
) -> tuple[Any]:
    """exp(s) @ v, which may be divided by the sum later."""
    out, trace = step.run(), found.trace
    if trace.how != "exp" or not activations or not isinstance(out, Tensor):
        return (out,)
    first, last = operand.letters[:-1], operand.letters[-1]
    plain = len(made.operands) == 2 and made.operands[0] is operand and first == made.out[:-1] and last not in made.out

    def call(weights: Tensor) -> WeightedCall:
        called = batched(weights, step.mode.heads)
        shape, dtype = weights.shape, found.tensor.dtype
        called.kernel, called.v = "exp, a product and a division by the sum", activations[0].tensor
        called.give = lambda w: with_tensor(step.func, step.args, step.kwargs, found.place, w.reshape(shape).to(dtype))
        return called

    met = state.late.wait(step.waits(UNDIVIDED)) if trace.product else frozenset()
    known = plain and not trace.lost
    state.late.products[out] = Unnormalised(trace, call, met) if known else Unnormalised(met=met)
    return (out,)
