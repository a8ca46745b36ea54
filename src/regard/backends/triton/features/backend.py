"""Triton features: softmax weights for each pair and feature on a GPU, with nothing of n x m in memory.

What runs here: scores of one number a feature, a sum or a product bent by tanh, (leaky) ReLU, |x| or -x^2/2, with a
bias of keys and a soft cap (DiSA's); softmax; over ranges (causal, window, padding) and key masks. Operators are
registered here without importing Triton; kernels and launches are in the files beside it.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.backends.custom_op import gradients, operator
from regard.backends.flat_schema import leading_tensors, takes
from regard.backends.range_masks import RANGES, ranges_of
from regard.core.alignments import RowState
from regard.core.lowering.kernel_forms import ABSOLUTE, HALF_SQUARE, KINKED, SOFT_CAP, TANH, core_families
from regard.core.lowering.score_kernels import PairCore
from regard.core.lowering.support import FEATURE_KEY_BIAS, KEY_BIAS, Support
from regard.core.plan import Plan
from regard.core.registry import BackendResult
from regard.core.scores.score import Lowered

from ..dense.backend import OnCuda, call_refusals
from .shapes import rows_shape

SUPPORT = Support(
    ("softmax",),
    RANGES,
    (
        *core_families((TANH, KINKED, ABSOLUTE, HALF_SQUARE), weights="each"),
        *core_families((KINKED, ABSOLUTE, HALF_SQUARE), join="mul", weights="each"),
    ),
    (SOFT_CAP,),
    (KEY_BIAS, FEATURE_KEY_BIAS),
)


class TritonFeatures(OnCuda):
    """Fused feature-wise softmax on a GPU."""

    name = "triton-features"
    support = SUPPORT

    def kernel_refusals(self, plan: Plan) -> list[str]:
        return kernel_refusals(plan)

    def run(self, plan: Plan) -> BackendResult:
        problem = plan.problem
        score, ranges = problem.score, ranges_of(plan.over, plan.n, plan.m)
        core = score.core
        assert isinstance(core, PairCore) and ranges is not None
        bias = score.key_bias
        if bias is not None:
            bias = bias.mT if bias.ndim == 3 else bias[..., None].expand(-1, -1, core.a.shape[-1])
        out, tau, _ = features_op(
            core.a,
            core.b,
            plan.v_by_head.flatten(0, 1),
            bias,
            ranges.lengths,
            ranges.keep,
            ranges.left,
            ranges.right,
            problem.heads,
            *_bent(core, score),
        )
        return BackendResult(out.unflatten(0, (plan.batch, plan.heads)), RowState(tau.mT))


def kernel_refusals(plan: Plan) -> list[str]:
    """What the kernels do not know of a plan, whatever the device."""
    why = call_refusals(plan)
    if plan.dropout:
        why.append("It has no dropout.")
    why += SUPPORT.alignment_refusals(plan) + SUPPORT.structure_refusals(plan)
    if not why and ranges_of(plan.over, plan.n, plan.m) is None:
        why.append(f"It reads one list of lengths and one mask of keys; this is {plan.over}.")
    if why:
        return why
    score = plan.problem.score
    return SUPPORT.score_refusals(score) or _soft_cap_refusals(score)


def _soft_cap_refusals(score: Lowered) -> list[str]:
    """A soft cap runs as the tanh of a sum, with nothing else that bends."""
    if not score.modifiers:
        return []
    form = score.core.kernel_form() if isinstance(score.core, PairCore) else None
    if form is None or (form.linear, form.bend, form.join) != (1.0, 0.0, "add") or len(score.modifiers) > 1:
        return [f"It caps sums that nothing else bends, once; this is {score.core}."]
    return [] if score.key_bias is None else ["It has no biases of keys under a soft cap."]


def _bent(core: PairCore, score: Lowered) -> tuple[int, int, float, float, float, float]:
    """Kind, join, and the numbers of s = factor h(steep z): h is tanh (kind 0), linear z + bent |z| or -z^2/2.

    Kinds are the codes of `kernel_forms` from TANH on.
    """
    join = int(core.join == "mul")
    if score.modifiers:  # c tanh((a + b) / c)
        capped = score.modifiers[0].kernel_form()
        assert capped is not None
        return 0, join, capped.bound, 1 / capped.bound, 0.0, 0.0
    form = core.kernel_form()
    assert form is not None
    return form.code - TANH, join, 1.0, 1.0, form.linear, form.bend


class FeatureArguments(NamedTuple):
    """Of `regard::features_triton`, in the order of its schema."""

    a: Tensor  # (g, n, F), g = batch x heads
    b: Tensor  # (g, m, F)
    v: Tensor  # (g, m, F)
    bias: Tensor | None  # (g, m, F), of any strides; the last that receives a gradient
    lengths: Tensor | None  # keys of each item
    keep: Tensor | None  # mask of keys
    left: int  # keys from i - left to i + right
    right: int
    heads: int
    kind: int  # h: 0 tanh, 1 and 2 linear z + bent |z|, 3 -z^2/2
    join: int  # of query and key: 0 their sum, 1 their product
    factor: float  # s = factor h(steep z)
    steep: float
    linear: float
    bent: float


TENSORS, DIFFERENTIABLE = leading_tensors(FeatureArguments), 4


@operator("features_triton")
@takes(FeatureArguments)
def features_op(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """out and tau, (g, n, F); what the backward asks of rows (`kernels`)."""
    from .launch import run

    found: tuple[Tensor, Tensor, Tensor] = run(*arguments)
    return found


@features_op.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    given = FeatureArguments(*arguments)
    a, v = given.a, given.v
    tau = v.new_empty(a.shape, dtype=torch.float32)
    return v.new_empty(a.shape), tau, tau.new_empty(rows_shape(a, given.kind, given.factor, given.bias))


@operator("features_triton_backward")
@takes(FeatureArguments, out=Tensor, rows=Tensor, dout=Tensor)
def backward_op(*arguments: Any) -> list[Tensor]:
    """Gradients of those of a, b, v and bias that there are."""
    from .launch import run_back

    return list(run_back(*arguments))


@backward_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in arguments[:DIFFERENTIABLE] if x is not None]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    out, _, rows = output
    ctx.numbers = inputs[TENSORS:]
    ctx.save_for_backward(*inputs[:TENSORS], out, rows)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.tape = getattr(output, "tape", None)  # of a replayed call


def _autograd(ctx: Any, dout: Tensor, *_: Any) -> tuple[Any, ...]:
    tensors, pulled = gradients(ctx, backward_op, TENSORS, dout)
    found = iter(pulled)
    grads = [None if x is None else next(found) for x in tensors[:DIFFERENTIABLE]]
    return *grads, *[None] * (TENSORS - DIFFERENTIABLE + len(ctx.numbers))


features_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("triton-features")
