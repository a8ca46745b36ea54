"""Chunked: any plan but the stepwise ones, forward and backward in O(n) memory, on a CPU or a GPU, in plain torch.

A custom operator takes its two passes (`passes.py`) through torch.compile and torch.export. A score or a
modifier of the user's own runs the same passes under torch's autograd, in eager mode (`user_score.py`).
"""

from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import RowState
from regard.core.errors import Refused
from regard.core.lowering.serialization import Parts, decode, encode
from regard.core.lowering.support import NO_TRANSFORMS
from regard.core.plan import Plan
from regard.core.registry import Backend, BackendResult
from regard.core.torch_private import any_transformed

from ..custom_op import operator
from .passes import Results, backward_pass, empty_results, forward_pass, full_precision
from .user_score import UserScore, leaves_of

SMALL = 1 << 19  # pairs times width under which the reference is faster: it starts in half the time


def too_small_for_kernel(plan: Plan) -> bool:
    """Whether the reference, one pass of a few operators, is faster. While compiling, sizes must not decide."""
    if torch.compiler.is_compiling():
        return False
    return plan.batch * plan.heads * plan.n * plan.m * plan.q.shape[-1] <= SMALL


class Chunked(Backend):
    """Any plan without a stepwise part, in O(n) memory, forward and backward."""

    name = "chunked"

    def refusals(self, plan: Plan) -> list[str]:
        if plan.score.stepwise or plan.align.stepwise:
            return ["It runs blocks of rows in any order; this mechanism needs each row before the next."]
        if plan.part_refusals:
            return plan.part_refusals
        if not plan.align.remembers:
            return ["This alignment defines forward alone and keeps no row state, which running in blocks needs."]
        compiling = torch.compiler.is_compiling()
        if any_transformed((plan.q, plan.k, plan.v)):
            return [NO_TRANSFORMS]
        if not plan.problem.score.closed:
            if compiling:
                return [
                    "A score or modifier of your own runs here in eager mode only; compiled, it runs on 'reference'."
                ]
            if plan.score.positional:
                return ["This score depends on where a key stands and cannot be called on slices."]
        return []

    def defers(self, plan: Plan) -> bool:
        return too_small_for_kernel(plan)

    def run(self, plan: Plan) -> BackendResult:
        problem, v = plan.problem, plan.v_by_head.flatten(0, 1)
        if problem.score.closed:
            parts = Parts([v], [], [])
            text = encode(problem, parts)
            results = forward_op(parts.tensors, text, parts.ints, parts.floats)
            out, tau, index, scale, log_prob, entropy = results
        else:
            out, tau, index, scale, log_prob, entropy = UserScore.apply(problem, v, *leaves_of(problem))
        shape = (plan.batch, plan.heads)
        state = RowState(tau, index if problem.align.chooses else None, scale if scale.ndim == tau.ndim else None)
        if not problem.align.reports_draw or problem.score.features is not None:
            return BackendResult(out.unflatten(0, shape), state)
        drawn = {"log_prob": log_prob.unflatten(0, shape), "entropy": entropy.unflatten(0, shape)}
        return BackendResult(out.unflatten(0, shape), state, **drawn)


@operator("chunked")
def forward_op(tensors: list[Tensor], text: str, ints: list[int], floats: list[float]) -> Results:
    """tensors[0] are the values (g, m, d_v), the rest belongs to the problem that `text` describes."""
    with torch.autocast(tensors[0].device.type, enabled=False):
        return forward_pass(decode(text, Parts(tensors, ints, floats)), tensors[0])


@forward_op.register_fake
def _(tensors: list[Tensor], text: str, ints: list[int], floats: list[float]) -> Results:
    problem, v = decode(text, Parts(tensors, ints, floats)), tensors[0]
    out, *rest = empty_results(problem, v)
    return (v.new_empty(out.shape), *rest)  # type: ignore[return-value]


@operator("chunked_backward")
def backward_op(
    tensors: list[Tensor],
    text: str,
    ints: list[int],
    floats: list[float],
    tau: Tensor,
    index: Tensor,
    scale: Tensor,
    dout: Tensor,
    dtau: Tensor | None,
    dlog: Tensor | None,
    dentropy: Tensor | None,
) -> list[Tensor]:
    with torch.autocast(tensors[0].device.type, enabled=False):
        full = [full_precision(x).view_as(x) if x.is_floating_point() else x for x in tensors]  # one object a position
        problem = decode(text, Parts(full, ints, floats))
        state = RowState(
            tau, index if index.numel() or problem.align.chooses else None, scale if scale.ndim == tau.ndim else None
        )
        found = backward_pass(problem, full[0], state, full_precision(dout), dtau, dlog, dentropy, full)
    return [
        (torch.zeros_like(x) if g is None else g.to(x.dtype)) if x.is_floating_point() else x.new_zeros(0)
        for x, g in zip(tensors, found, strict=True)
    ]


@backward_op.register_fake
def _(tensors: list[Tensor], text: str, *rest: Any) -> list[Tensor]:
    return [torch.empty_like(x) if x.is_floating_point() else x.new_empty(0) for x in tensors]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
    tensors, ctx.text, ctx.ints, ctx.floats = inputs
    _, tau, index, scale, _, _ = output
    ctx.count = len(tensors)
    ctx.save_for_backward(*tensors, tau, index, scale)
    ctx.mark_non_differentiable(index, scale)
    ctx.set_materialize_grads(False)


def _autograd(
    ctx: Any, dout: Tensor | None, dtau: Tensor | None, _i: Any, _s: Any, dlog: Tensor | None, dentropy: Tensor | None
) -> tuple[list[Tensor | None], None, None, None]:
    saved = ctx.saved_tensors
    tensors, (tau, index, scale) = list(saved[: ctx.count]), saved[ctx.count :]
    if dout is None:
        dout = tensors[0].new_zeros((tau.shape[0], tau.shape[-1], tensors[0].shape[-1]))
    found = backward_op(tensors, ctx.text, ctx.ints, ctx.floats, tau, index, scale, dout, dtau, dlog, dentropy)
    return [g if x.is_floating_point() else None for x, g in zip(tensors, found, strict=True)], None, None, None


forward_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("chunked")


def _no_vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
    raise Refused(f'backend "chunked" refuses: {NO_TRANSFORMS}')


forward_op.register_vmap(_no_vmap)
backward_op.register_vmap(_no_vmap)
