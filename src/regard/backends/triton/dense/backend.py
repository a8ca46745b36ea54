"""Triton dense: attention that no library fuses, on a GPU, forward and backward, with nothing of n x m in memory.

What runs here: dot products (with a bias of keys or rows), additive scores with tanh, (leaky) ReLU and absolute values;
softmax, top-k, sigmoid, sparsemax, entmax and local attention; over ranges (causal, window, padding), segments and
masks of keys. Heads of queries may share keys. Dot products under softmax, sigmoid, sparsemax and entmax may have
modifiers, fused in their order (soft cap, clamp, ALiBi, biases of distances and of pairs), and a sink.
Operators are registered here without importing Triton; kernels and launches are in the files beside it.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from regard.backends.chunked.backend import too_small_for_kernel
from regard.backends.custom_op import gradients, operator
from regard.backends.flat_schema import leading_tensors, takes
from regard.backends.flex import Flex
from regard.backends.range_masks import RANGES
from regard.backends.segment_spans import STRETCHES, reorders, spannable, spans_of
from regard.core.alignments import RowState
from regard.core.lowering.kernel_forms import (
    ABSOLUTE,
    ALL_KEYS,
    BEST_KEYS,
    DOT,
    EXPONENTIAL,
    KINKED,
    ONE_KEY,
    POSITIVE_PART,
    SIGMOID,
    TANH,
    AlignmentForm,
    core_families,
)
from regard.core.lowering.score_kernels import DotCore, PairCore
from regard.core.lowering.support import KEY_BIAS, NO_TRANSFORMS, ROW_BIAS, SINK, Support
from regard.core.plan import Plan
from regard.core.registry import Backend, BackendResult, CompiledRun
from regard.core.scores.score import Lowered
from regard.core.scores.similarity import squared
from regard.core.torch_private import any_transformed

from ..modifiers.codes import FUSED, MAX_HELD, encoded
from ..modifiers.refusals import modifier_refusals
from ..runtime.device_support import device_refusal, untested_triton
from .arguments import DIFFERENTIABLE, DenseArguments, receiving
from .sampling import choose
from .tile_sizes import side_of
from .topk import MAX_KEYS, keep_best

MAX_WIDTH = 256
MAX_TILES = 1 << 15  # of a row: they are counted in 16 bits
MAX_HEADS = 65535  # of a batch: the second axis of a grid
FLEX = Flex()
SUPPORT = Support(
    (
        "softmax",
        "top-k",
        "hard",
        "local",
        "predicted windows",
        "sigmoid",
        "sparsemax",
        "entmax 1.5",
        "entmax of alpha up to 2",
    ),
    (*RANGES, *STRETCHES),
    core_families((DOT, TANH, KINKED, ABSOLUTE)),
    FUSED,
    (KEY_BIAS, ROW_BIAS, SINK),
)


class OnCuda(Backend, ABC):
    """Kernels of a CUDA device."""

    def refusals(self, plan: Plan) -> list[str]:
        why = device_refusal(plan.q.device)
        return self.kernel_refusals(plan) if why is None else [why]

    def part_refusals(self, plan: Plan) -> list[str]:
        return self.kernel_refusals(plan)

    def defers(self, plan: Plan) -> bool:
        return too_small_for_kernel(plan)  # a kernel would be compiled for them

    def plain_because(self) -> str | None:
        return untested_triton()

    @abstractmethod
    def kernel_refusals(self, plan: Plan) -> list[str]:
        """What the kernels do not know of a plan, whatever the device."""


class TritonDense(OnCuda):
    """Fused dense attention on a GPU: dot and additive scores, every alignment of rows."""

    name = "triton-dense"
    support = SUPPORT

    def kernel_refusals(self, plan: Plan) -> list[str]:
        return kernel_refusals(plan)

    def defers(self, plan: Plan) -> bool:
        """Small plans; and a modified softmax where FlexAttention takes it."""
        if super().defers(plan):
            return True
        form, score = plan.align.kernel_form(), plan.problem.score
        modified = bool(score.modifiers) or score.sink is not None
        return modified and form is not None and form.function == EXPONENTIAL and not FLEX.refusals(plan)

    def run(self, plan: Plan) -> BackendResult:
        spans = spans_of(plan)
        form = plan.align.kernel_form()
        assert form is not None
        score, v = _shared(plan, form.keys == ONE_KEY or spans.keys is not None)
        core = score.core
        assert isinstance(core, (DotCore, PairCore))
        scored = core.kernel_form()
        assert scored is not None
        readout = core.readout_vectors() if isinstance(core, PairCore) else None
        scale = core.scale if isinstance(core, DotCore) else 1.0
        parts = (scored.code, scale, scored.linear, scored.bend, readout)
        if form.keys == ONE_KEY:
            return choose(plan, spans, parts)
        if form.keys == BEST_KEYS:
            return keep_best(plan, score, v, spans, parts)
        bell, ranges = plan.factor, spans.ranges
        text, bounds, modifying = encoded(score.modifiers)
        held: list[Tensor | None] = [*modifying, *[None] * (MAX_HELD - len(modifying))]
        bounds += [1.0] * (MAX_HELD - len(bounds))
        centre = None if bell is None else bell.centre
        tensors = (core.a, core.b, v, readout, score.key_bias, score.row_bias, centre, score.sink, *held)
        trains = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
        out, tau, _, _ = dense_op(
            spans.of_rows(core.a),
            spans.of_keys(core.b),
            spans.of_keys(v.flatten(0, 1)),
            readout,
            spans.of_keys(score.key_bias),
            spans.of_rows(score.row_bias),
            None if bell is None else spans.of_rows(bell.centre),
            score.sink,
            *held,
            ranges.lengths,
            ranges.keep,
            spans.low,
            spans.high,
            plan.seed if plan.dropout else None,
            ranges.left,
            ranges.right,
            plan.heads,
            *parts[:4],
            *_weights(form),
            0.0 if bell is None else 0.5 / bell.width**2,
            plan.dropout,
            trains,
            text,
            *bounds,
        )
        out, tau = spans.in_original_order(out), spans.in_original_order(tau)
        return BackendResult(out.unflatten(0, (plan.batch, plan.heads)), RowState(tau))

    def fast_path(self, plan: Plan) -> CompiledRun | None:
        """Products of q and k as they are, a Gaussian's with the squares of keys, over ranges, of alignments that hold
        all that they need."""
        spans, score, shape = spans_of(plan), plan.shared, (plan.batch, plan.heads, plan.n, plan.v.shape[-1])
        core, ranges, form = score.core, spans.ranges, plan.align.kernel_form()
        bound = (
            spans.low,
            spans.rows,
            spans.keys,
            ranges.lengths,
            ranges.keep,
            plan.factor,
            score.row_bias,
            score.sink,
        )
        if form is None or form.keys != ALL_KEYS or not isinstance(core, DotCore) or any(x is not None for x in bound):
            return None
        if score.modifiers:
            return None
        if (core.a.data_ptr(), core.b.data_ptr()) != (plan.q.data_ptr(), plan.k.data_ptr()):  # divided by the width
            return None
        share = None if score.key_bias is None else -0.5 * core.scale
        numbers = (ranges.left, ranges.right, plan.heads, DOT, core.scale, 0.0, 0.0, *_weights(form), 0.0, 0.0)
        rest = (*[None] * 11, *numbers)

        def run(q: Tensor, k: Tensor, v: Tensor) -> BackendResult:
            trains = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
            bias = None if share is None else squared(k, share).flatten(0, 1)
            out, tau, _, _ = dense_op(
                q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), None, bias, *rest, trains, "", 1.0, 1.0, 1.0
            )
            return BackendResult(out.view(shape), RowState(tau))

        return run


def _shared(plan: Plan, apart: bool) -> tuple[Lowered, Tensor]:
    """The score, and values with as many heads as its keys: heads of queries share both, unless they are `apart`."""
    score = plan.problem.score if apart else plan.shared
    alike = isinstance(score.core, (DotCore, PairCore)) and score.core.b.shape[0] == plan.batch * plan.k.shape[1]
    return score, plan.v if alike else plan.v_by_head


def kernel_refusals(plan: Plan) -> list[str]:
    """What the kernels do not know of a plan, whatever the device."""
    why, form = call_refusals(plan) + SUPPORT.alignment_refusals(plan), plan.align.kernel_form()
    if form is not None and form.keys == BEST_KEYS and form.top > MAX_KEYS and plan.m > MAX_KEYS:
        why.append(f"It keeps up to {MAX_KEYS} keys a row; this is TopK({form.top}).")
    why += SUPPORT.structure_refusals(plan)
    if not why and not spannable(plan):
        why.append(f"It does not run all of its structures at once; this is {plan.over}.")
    if why or form is None:
        return why
    if form.keys != ALL_KEYS and reorders(plan):
        why.append("Keys of segments out of order are chosen elsewhere: noise and choices belong to places.")
    elif plan.dropout and (form.keys == ONE_KEY or reorders(plan)):
        why.append("It drops no hard choice, and nothing where rows or keys change places, to which noise belongs.")
    why = why or _score_refusals(plan.shared, plan.v.shape[-1])
    score = plan.problem.score
    if not why and (score.modifiers or score.sink is not None):
        why = modifier_refusals(plan, form, reorders(plan), side_of(plan.q, plan.v, DOT))
    if not why and form.function >= POSITIVE_PART and not torch.compiler.is_compiling():
        core = plan.shared.core
        most = MAX_TILES * side_of(core.a, plan.v, not isinstance(core, DotCore))
        if max(plan.n, plan.m) > most:
            why.append(
                f"It lists the tiles that hold weights, of up to {most:,} places; these are {max(plan.n, plan.m):,}."
            )
    return why


def call_refusals(plan: Plan) -> list[str]:
    """What no kernel over ranges knows: where and how a plan is called, whatever its score and alignment."""
    why = []
    if any_transformed((plan.q, plan.k, plan.v)):
        why.append(NO_TRANSFORMS)
    if plan.q.dtype == torch.float64:
        why.append("Its sums are in fp32.")
    if plan.batch * plan.heads > MAX_HEADS:
        why.append(f"It runs up to {MAX_HEADS:,} heads of a batch; these are {plan.batch * plan.heads:,}.")
    if plan.score.stepwise or plan.align.stepwise:
        why.append("It scores all pairs at once; this mechanism goes step by step.")
    return why


def _score_refusals(score: Lowered, d_v: int) -> list[str]:
    why = SUPPORT.score_refusals(score)
    if not why and max(score.core.a.shape[-1], d_v) > MAX_WIDTH:
        why.append(f"Its heads are up to {MAX_WIDTH} wide.")
    return why


def _weights(form: AlignmentForm) -> tuple[int, float, float | None]:
    """align, alpha and bias of `DenseArguments`."""
    return form.function, form.alpha, form.bias


TENSORS = leading_tensors(DenseArguments)


@operator("dense_triton")
@takes(DenseArguments)
def dense_op(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (g, n, d_v), tau (g, n), which tiles hold weights, what the backward asks of rows (`launch.forward`)."""
    from .launch import run

    found: tuple[Tensor, Tensor, Tensor, Tensor] = run(*arguments)
    return found


@dense_op.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    given = DenseArguments(*arguments)
    a, b, v, align = given.a, given.b, given.v, given.align
    g, n = a.shape[0], a.shape[1]
    side = side_of(a, v, given.core)
    live = g * ((n + side - 1) // side) * ((b.shape[1] + side - 1) // side) if align > SIGMOID else 0
    tau = v.new_empty((g, n), dtype=torch.float32)
    exact = 2 if v.dtype == torch.float32 else 1
    rows = (exact, g, n) if align == EXPONENTIAL else (g, n, v.shape[2]) if align > SIGMOID and given.trains else (0,)
    return v.new_empty((g, n, v.shape[2])), tau, v.new_empty(live, dtype=torch.int8), tau.new_empty(rows)


@operator("dense_triton_backward")
@takes(DenseArguments, out=Tensor, tau=Tensor, live=Tensor, rows=Tensor, dout=Tensor)
def backward_op(*arguments: Any) -> list[Tensor]:
    """Gradients of those of a, b, v, readout, key_bias, row_bias and centre that there are."""
    from .launch import run_back

    return list(run_back(*arguments))


@backward_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    given = arguments[: len(DenseArguments._fields)]
    return [x.new_empty(x.shape) for x, wanted in zip(arguments, receiving(given), strict=False) if wanted]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.numbers = inputs[TENSORS:]
    ctx.save_for_backward(*inputs[:TENSORS], *output)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.tape = getattr(output, "tape", None)  # of a replayed call


def _autograd(ctx: Any, dout: Tensor, *_: Any) -> tuple[Any, ...]:
    tensors, pulled = gradients(ctx, backward_op, TENSORS, dout)
    found = iter(pulled)
    grads = [next(found) if wanted else None for wanted in receiving((*tensors[:TENSORS], *ctx.numbers))]
    return *grads, *[None] * (TENSORS - DIFFERENTIABLE + len(ctx.numbers))


dense_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("triton-dense")
