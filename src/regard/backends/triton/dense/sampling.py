"""Hard attention on a GPU: a kernel draws each row's key and keeps log sum exp and entropy; the rest is O(n).

    out_i = v_index,   log p_i = s_index - tau_i,   H_i = -sum_j p_ij log p_ij

The kernel's gradients are those of tau and H: ds_ij = dtau_i p_ij - dH_i p_ij (log p_ij + H_i). The score of the key
that was drawn is computed again from its vectors.
"""

from typing import Any

import torch
from torch import Tensor

from regard.backends.custom_op import operator
from regard.backends.flat_schema import takes
from regard.backends.segment_spans import Spans
from regard.core.activations import apply_activation
from regard.core.alignments import RowState
from regard.core.lowering.score_kernels import DotCore, PairCore
from regard.core.plan import Plan
from regard.core.registry import BackendResult
from regard.core.scores.score import Lowered

from .arguments import ChoiceArguments


def choose(plan: Plan, spans: Spans, parts: tuple[Any, ...]) -> BackendResult:
    """parts: number of the core, scale, linear, bent, readout."""
    score, ranges = plan.problem.score, spans.ranges
    core = score.core
    number, scale, linear, bent, readout = parts
    seed = plan.seed if plan.sample and plan.align.samples else None
    index, tau, entropy = choose_op(
        core.a,
        core.b,
        readout,
        score.key_bias,
        score.row_bias,
        ranges.lengths,
        ranges.keep,
        spans.low,
        spans.high,
        seed,
        ranges.left,
        ranges.right,
        plan.problem.heads,
        number,
        scale,
        linear,
        bent,
    )
    seen = index >= 0
    place = index.clamp_min(0).long()
    v = plan.v_by_head.flatten(0, 1)
    if plan.m == 0:
        out, score_of = v.new_zeros(*index.shape, v.shape[-1]), tau.new_zeros(tau.shape)
    else:
        out = torch.where(seen[..., None], taken(v, place), 0.0)
        score_of = _score_of(core, score, readout, place)
    log_prob = torch.where(seen, score_of - torch.where(seen, tau, 0.0), 0.0)
    lead = (plan.batch, plan.heads)
    return BackendResult(
        out.unflatten(0, lead),
        RowState(tau, index),
        log_prob=log_prob.unflatten(0, lead),
        entropy=entropy.unflatten(0, lead),
    )


def _score_of(core: Any, score: Lowered, readout: Tensor | None, place: Tensor) -> Tensor:
    """(g, n) fp32: the score of one key a row."""
    a, b = core.a.float(), taken(core.b, place).float()
    if isinstance(core, DotCore):
        s = (a * b).sum(-1) * core.scale
    else:
        assert isinstance(core, PairCore) and readout is not None
        s = (apply_activation(a + b, core.act, core.slope) * readout.float()[:, None]).sum(-1)
    if score.key_bias is not None:
        s = s + taken(score.key_bias[..., None], place)[..., 0]
    return s if score.row_bias is None else s + score.row_bias


class _Taken(torch.autograd.Function):
    """x (g, m, d) at place (g, n): the gradient is added in one order, where gather's is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.shape = x.shape
        return x.gather(1, place[..., None].expand(-1, -1, x.shape[2]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (place,) = ctx.saved_tensors
        g = torch.arange(place.shape[0], device=place.device)[:, None].expand_as(place)
        return grad.new_zeros(ctx.shape).index_put((g, place), grad, accumulate=True), None


def taken(x: Tensor, place: Tensor) -> Tensor:
    made: Tensor = _Taken.apply(x, place)
    return made


DIFFERENTIABLE = 5  # a to row_bias
SEED = ChoiceArguments._fields.index("seed")


@operator("choose_triton")
@takes(ChoiceArguments)
def choose_op(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The key of each row, tau and the entropy, (g, n) each."""
    from .launch import choose

    given = ChoiceArguments(*arguments)
    return choose(given.scoring(), given.seed)


@choose_op.register_fake
def _(a: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    made = a.new_empty(a.shape[:2], dtype=torch.float32)
    return made.int(), made, made.clone()


@operator("choose_triton_backward")
@takes(ChoiceArguments, "seed", tau=Tensor, entropy=Tensor, dtau=Tensor, dentropy=Tensor)
def backward_op(*arguments: Any) -> list[Tensor]:
    """Gradients of a, b, readout, key_bias and row_bias; an empty tensor where there is none."""
    from .launch import backward

    call, (tau, entropy, dtau, dentropy) = _without_seed(arguments[:-4]).scoring(), arguments[-4:]
    taken_out = dentropy * entropy - dtau
    none = tau.new_empty(0)  # of tiles
    found = backward(call, tau, tau, none, tau, dentropy[..., None], chosen=taken_out.contiguous())
    made = (found[0], found[1], *found[3:6])
    return [
        tau.new_empty(0, dtype=call.a.dtype) if x is None or y is None else y.to(x.dtype)
        for x, y in zip(arguments[:DIFFERENTIABLE], made, strict=True)
    ]


@backward_op.register_fake
def _(*given: Any) -> list[Tensor]:
    return [given[0].new_empty(0) if x is None else x.new_empty(x.shape) for x in given[:DIFFERENTIABLE]]


def _without_seed(arguments: tuple[Any, ...]) -> ChoiceArguments:
    return ChoiceArguments._make((*arguments[:SEED], None, *arguments[SEED:]))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.numbers = inputs[SEED + 1 :]
    ctx.save_for_backward(*inputs[:SEED], *output[1:])
    ctx.mark_non_differentiable(output[0])


def _autograd(ctx: Any, _: Any, dtau: Tensor, dentropy: Tensor) -> tuple[Any, ...]:
    *tensors, tau, entropy = ctx.saved_tensors
    found = backward_op(*tensors, *ctx.numbers, tau, entropy, dtau, dentropy)
    grads = [None if x is None else y for x, y in zip(tensors[:DIFFERENTIABLE], found, strict=True)]
    return *grads, *[None] * (SEED + 1 - DIFFERENTIABLE + len(ctx.numbers))


choose_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("triton-dense")
