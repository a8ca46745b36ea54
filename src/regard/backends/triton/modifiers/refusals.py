"""Which modified scores the kernels do not run, as sentences."""

import torch

from regard.core.lowering.kernel_forms import (
    ALL_KEYS,
    DISTANCE_BIAS,
    GIVEN_BIAS,
    SIGMOID,
    AlignmentForm,
    listed,
)
from regard.core.lowering.score_kernels import DotCore
from regard.core.plan import Plan

from .codes import BENDING, LARGEST_BYTES, MAX_HELD, ROWS_AT_ONCE

LEAST_SIDE = 64  # of tiles that the walk which finds tau of dot products takes


def modifier_refusals(plan: Plan, form: AlignmentForm, reordered: bool, side: int) -> list[str]:
    """Of a plan whose modifiers all have functions of tiles. side: of a sparse alignment's tiles."""
    score = plan.problem.score
    names = [type(modifier).__name__ for modifier in score.modifiers] + ["Sink"] * (score.sink is not None)
    this = f"this score has {listed(names)}"
    if not isinstance(score.core, DotCore):
        return [f"It modifies dot products alone; {this}."]
    if form.keys != ALL_KEYS or plan.factor is not None:
        return [f"It modifies no scores of top-k, hard and predicted choices; {this}."]
    if form.function > SIGMOID and side < LEAST_SIDE:
        return [f"It modifies scores of sparse alignments for narrower heads in this precision; {this}."]
    forms = [(modifier, modifier.kernel_form(), modifier.kernel_tensor()) for modifier in score.modifiers]
    if reordered and any(each is not None and each.family not in BENDING for _, each, _ in forms):
        return [f"Keys of segments out of order change places, which modifiers read; {this}."]
    held = sum(tensor is not None for _, _, tensor in forms)
    if max(held, len(forms) - held) > MAX_HELD:
        return [f"It takes up to {MAX_HELD} modifiers with a tensor, and as many with a bound; {this}."]
    for modifier, each, tensor in forms:
        name = type(modifier).__name__
        if each is None or each.family in BENDING:
            continue
        if tensor is None:
            return [f"{name} declares {each.family} and holds no tensor (kernel_tensor)."]
        if tensor.device != plan.q.device or tensor.dtype == torch.float64:
            return [f"What {name} holds is {tensor.dtype} on {tensor.device}; queries are on {plan.q.device}."]
        if each.family == GIVEN_BIAS:
            whole = (-(-plan.batch // each.share), plan.heads, plan.n, plan.m)
            if any(has not in (1, size) for has, size in zip(tensor.shape, whole, strict=True)):
                return [f"{name} holds a bias {tuple(tensor.shape)}, expected {whole}, each axis whole or 1."]
        if each.family == DISTANCE_BIAS and torch.is_grad_enabled() and tensor.requires_grad:
            blocks = -(-plan.n // ROWS_AT_ONCE)
            needed = 4 * plan.batch * plan.heads * blocks * tensor.shape[1]
            if needed > LARGEST_BYTES:
                return [
                    f"The gradient of {name} for {tensor.shape[1]:,} distances takes {needed:,} bytes, over "
                    f"{LARGEST_BYTES:,}."
                ]
    return []
