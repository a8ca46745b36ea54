"""Row statistics in blocks of rows: one more pass over the scores, and its gradient.

    d max_logit = ds at the largest score (the first of equals)
    d entropy   = -sum_j (log w_j + 1) dw_j, through the alignment
    d lse       = sum_j w_j ds_j

The backward recomputes each block from the row state, as that of attention does. A sink takes weight from a row and is
no key: its logit counts in log_sum_exp alone.
"""

from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import RowState
from regard.core.errors import Refused
from regard.core.lowering import blockwise
from regard.core.lowering.blocks import Block, Problem, blocks
from regard.core.lowering.score_kernels import Grads
from regard.core.lowering.serialization import Parts, decode, encode
from regard.core.lowering.support import NO_TRANSFORMS

from ..custom_op import operator
from .passes import empty_results, factor_vjp, full_precision, put_state

Statistics = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def row_statistics(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """The largest logit, the entropy and the log-sum-exp of each row, (g, [F,] n)."""
    parts = Parts([], [], [])
    text = encode(problem, parts)
    largest, entropy, tau, _, _ = statistics_op(parts.tensors, text, parts.ints, parts.floats)
    if problem.align.samples:  # a draw has no derivative
        entropy = entropy.detach()
    return largest, entropy, torch.where(tau == float("inf"), -tau, tau)


def _empty(problem: Problem) -> Statistics:
    like = full_precision(problem.score.core.a)
    _, tau, index, scale, _, _ = empty_results(problem, like)
    return torch.full_like(tau, float("-inf")), torch.zeros_like(tau), tau, index, scale


def _statistics(problem: Problem) -> Statistics:
    problem = problem.in_full_precision()
    largest, entropy, tau, index, scale = _empty(problem)
    for block in blocks(problem):
        s = blockwise.scores(problem, block)
        state, w, _ = blockwise.state_and_weights(problem, block, s)
        put_state(block, state, tau, index, scale)
        if s.shape[-1]:
            blockwise.put(largest, block, s.amax(-1))
        w = blockwise.scaled(problem, block, w[..., : s.shape[-1]], dropout=False)
        blockwise.put(entropy, block, -torch.special.xlogy(w, w).sum(-1))
    return largest, entropy, tau, index, scale


def _gradients(
    problem: Problem,
    state: RowState,
    dlargest: Tensor | None,
    dentropy: Tensor | None,
    dtau: Tensor | None,
    targets: list[Tensor],
) -> list[Tensor | None]:
    grads = Grads()
    for block in blocks(problem):
        trail: list[Tensor] = []
        s = blockwise.scores(problem, block, trail)
        if s.shape[-1] == 0:
            continue
        part = blockwise.pick(state, block.slab, block.rows)
        w, full, context = blockwise.whole_weights(problem, block, s, part)
        ds = torch.zeros_like(full)
        if dentropy is not None:
            dw = _entropy_vjp(problem, block, w[..., : s.shape[-1]], _of(dentropy, block), grads)
            dw = torch.nn.functional.pad(dw, (0, full.shape[-1] - s.shape[-1]))
            if problem.align.uses_scores:
                ds = problem.align.vjp(full, w, dw, part, grads, context)
        if dtau is not None:
            ds = ds + _of(dtau, block) * w
        if problem.score.sink is not None:
            grads.of(problem.score.sink)[block.slab] += ds[..., -1].flatten(1).sum(1)
            ds = ds[..., : s.shape[-1]]
        if dlargest is not None:
            high, place = s.max(-1, keepdim=True)
            ds = ds.scatter_add(-1, place, _of(dlargest, block).masked_fill(high == float("-inf"), 0.0))
        blockwise.scores_vjp(problem, block, trail, ds, grads)
    return [grads.get(target) for target in targets]


def _of(x: Tensor, block: Block) -> Tensor:
    """(g, [F,] r, 1)"""
    return blockwise.pick(RowState(x), block.slab, block.rows).tau[..., None]


def _entropy_vjp(problem: Problem, block: Block, w: Tensor, dentropy: Tensor, grads: Grads) -> Tensor:
    """The gradient of the weights before their factor; a weight of 0 stays one."""
    scaled = blockwise.scaled(problem, block, w, dropout=False)
    dw = torch.where(scaled > 0, -dentropy * (scaled.log() + 1), 0.0)
    return factor_vjp(problem, block, w, dw, grads)


@operator("row_statistics")
def statistics_op(tensors: list[Tensor], text: str, ints: list[int], floats: list[float]) -> Statistics:
    with torch.autocast(tensors[0].device.type, enabled=False):
        return _statistics(decode(text, Parts(tensors, ints, floats)))


@statistics_op.register_fake
def _(tensors: list[Tensor], text: str, ints: list[int], floats: list[float]) -> Statistics:
    return _empty(decode(text, Parts(tensors, ints, floats)))


@operator("row_statistics_backward")
def backward_op(
    tensors: list[Tensor],
    text: str,
    ints: list[int],
    floats: list[float],
    tau: Tensor,
    index: Tensor,
    scale: Tensor,
    dlargest: Tensor | None,
    dentropy: Tensor | None,
    dtau: Tensor | None,
) -> list[Tensor]:
    with torch.autocast(tensors[0].device.type, enabled=False):
        full = [full_precision(x).view_as(x) if x.is_floating_point() else x for x in tensors]  # one object a position
        problem = decode(text, Parts(full, ints, floats))
        state = RowState(
            tau, index if index.numel() or problem.align.chooses else None, scale if scale.ndim == tau.ndim else None
        )
        found = _gradients(problem, state, dlargest, dentropy, dtau, full)
    return [
        (torch.zeros_like(x) if g is None else g.to(x.dtype)) if x.is_floating_point() else x.new_zeros(0)
        for x, g in zip(tensors, found, strict=True)
    ]


@backward_op.register_fake
def _(tensors: list[Tensor], text: str, *rest: Any) -> list[Tensor]:
    return [torch.empty_like(x) if x.is_floating_point() else x.new_empty(0) for x in tensors]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Statistics) -> None:
    tensors, ctx.text, ctx.ints, ctx.floats = inputs
    ctx.count = len(tensors)
    ctx.save_for_backward(*tensors, *output[2:])
    ctx.mark_non_differentiable(*output[3:])
    ctx.set_materialize_grads(False)


def _autograd(
    ctx: Any, dlargest: Tensor | None, dentropy: Tensor | None, dtau: Tensor | None, *_: Any
) -> tuple[list[Tensor | None], None, None, None]:
    saved = ctx.saved_tensors
    tensors, states = list(saved[: ctx.count]), saved[ctx.count :]
    found = backward_op(tensors, ctx.text, ctx.ints, ctx.floats, *states, dlargest, dentropy, dtau)
    return [g if x.is_floating_point() else None for x, g in zip(tensors, found, strict=True)], None, None, None


statistics_op.register_autograd(_autograd, setup_context=_setup)


def _no_second(ctx: Any, *grads: Any) -> Any:
    raise Refused("stats= has no second derivative: compute it from attend(...).map.weights(grad=True).")


backward_op.register_autograd(_no_second)


def _no_vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
    raise Refused(f"stats= is refused here: {NO_TRANSFORMS}")


statistics_op.register_vmap(_no_vmap)
backward_op.register_vmap(_no_vmap)
