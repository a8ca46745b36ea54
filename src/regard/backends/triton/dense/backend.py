"""Triton dense: attention that no library fuses, on a GPU, forward and backward, with nothing of n x m in memory.

What runs here: dot products (with a bias of keys or rows), additive scores with tanh, (leaky) ReLU and absolute values;
softmax, top-k, sigmoid, sparsemax, entmax and local attention; over ranges (causal, window, padding), segments and
masks of keys. Heads of queries may share keys.
Operators are registered here without importing Triton; kernels and launches are in the files beside it.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from regard.backends.chunked.backend import too_small_for_kernel
from regard.backends.custom_op import gradients, operator
from regard.backends.segment_spans import moves, spannable, spans_of
from regard.core.alignments import Entmax, Hard, Local, LocalPredictive, RowState, Sigmoid, Softmax, Sparsemax, TopK
from regard.core.lowering.score_kernels import DotCore, PairCore
from regard.core.plan import Plan
from regard.core.registry import Backend, BackendResult, CompiledRun
from regard.core.scores.score import Lowered
from regard.core.scores.similarity import squared
from regard.core.torch_private import any_transformed

from ..runtime.device_support import unable, untested_triton
from .sampling import choose
from .tile_sizes import side_of
from .topk import MOST, keep_best

WIDEST = 256
MOST_TILES = 1 << 15  # of a row: they are counted in 16 bits
MOST_HEADS = 65535  # of a batch: the second axis of a grid
# act(x) = linear x + bent |x|, and the number of the core in the kernels
BENT = {"relu": (0.5, 0.5, 2), "identity": (1.0, 0.0, 2), "abs": (0.0, 1.0, 3), "negative_abs": (0.0, -1.0, 3)}


class OnCuda(Backend, ABC):
    """Kernels of a CUDA device."""

    def refusals(self, plan: Plan) -> list[str]:
        why = unable(plan.q.device)
        return self.unfit(plan) if why is None else [why]

    def defers(self, plan: Plan) -> bool:
        return too_small_for_kernel(plan)  # a kernel would be compiled for them

    def plain_because(self) -> str | None:
        return untested_triton()

    @abstractmethod
    def unfit(self, plan: Plan) -> list[str]:
        """What the kernels do not know of a plan, whatever the device."""


class TritonDense(OnCuda):
    """Fused dense attention on a GPU: dot and additive scores, every alignment of rows."""

    name = "triton-dense"

    def unfit(self, plan: Plan) -> list[str]:
        return unfit(plan)

    def run(self, plan: Plan) -> BackendResult:
        spans = spans_of(plan)
        score, v = _shared(plan, type(plan.align) is Hard or spans.keys is not None)
        core = score.core
        assert isinstance(core, (DotCore, PairCore))
        linear, bent, number = bend_of(core)
        readout = None
        if isinstance(core, PairCore):
            assert core.readout is not None
            readout = (
                core.readout
                if isinstance(core.readout, Tensor)
                else torch.full((core.a.shape[0], core.a.shape[2]), core.readout, device=core.a.device)
            )
        parts = (number, core.scale if isinstance(core, DotCore) else 1.0, linear, bent, readout)
        if type(plan.align) is Hard:
            return choose(plan, spans, parts)
        if type(plan.align) is TopK:
            return keep_best(plan, score, v, spans, parts)
        bell, ranges = plan.factor, spans.ranges
        tensors = (core.a, core.b, v, readout, score.key_bias, score.row_bias, None if bell is None else bell.centre)
        trains = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
        out, tau, _, _ = dense_op(
            spans.of_rows(core.a),
            spans.of_keys(core.b),
            spans.of_keys(v.flatten(0, 1)),
            readout,
            spans.of_keys(score.key_bias),
            spans.of_rows(score.row_bias),
            None if bell is None else spans.of_rows(bell.centre),
            ranges.lengths,
            ranges.keep,
            spans.low,
            spans.high,
            plan.seed if plan.dropout else None,
            ranges.left,
            ranges.right,
            plan.heads,
            *parts[:4],
            *_aligned(plan),
            0.0 if bell is None else 0.5 / bell.width**2,
            plan.dropout,
            trains,
        )
        out, tau = spans.back(out), spans.back(tau)
        return BackendResult(out.unflatten(0, (plan.batch, plan.heads)), RowState(tau))

    def fast_path(self, plan: Plan) -> CompiledRun | None:
        """Products of q and k as they are, a Gaussian's with the squares of keys, over ranges, of alignments that hold
        all that they need."""
        spans, score, shape = spans_of(plan), plan.shared, (plan.batch, plan.heads, plan.n, plan.v.shape[-1])
        core, ranges, simple = score.core, spans.ranges, type(plan.align) in (Softmax, Sigmoid, Sparsemax, Entmax)
        bound = (spans.low, spans.rows, spans.keys, ranges.lengths, ranges.keep, plan.factor, score.row_bias)
        if not simple or not isinstance(core, DotCore) or any(x is not None for x in bound):
            return None
        if (core.a.data_ptr(), core.b.data_ptr()) != (plan.q.data_ptr(), plan.k.data_ptr()):  # divided by the width
            return None
        share = None if score.key_bias is None else -0.5 * core.scale
        rest = (*[None] * 7, ranges.left, ranges.right, plan.heads, 0, core.scale, 0.0, 0.0, *_aligned(plan), 0.0, 0.0)

        def run(q: Tensor, k: Tensor, v: Tensor) -> BackendResult:
            trains = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
            bias = None if share is None else squared(k, share).flatten(0, 1)
            out, tau, _, _ = dense_op(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), None, bias, *rest, trains)
            return BackendResult(out.view(shape), RowState(tau))

        return run


def _shared(plan: Plan, apart: bool) -> tuple[Lowered, Tensor]:
    """The score, and values with as many heads as its keys: heads of queries share both, unless they are `apart`."""
    score = plan.problem.score if apart else plan.shared
    alike = isinstance(score.core, (DotCore, PairCore)) and score.core.b.shape[0] == plan.batch * plan.k.shape[1]
    return score, plan.v if alike else plan.v_by_head


def unfit(plan: Plan) -> list[str]:
    """What the kernels do not know of a plan, whatever the device."""
    why = unfit_call(plan)
    if _aligned(plan)[0] < 0 or plan.draw is not None:
        why.append(
            "Its alignments are softmax, top-k, hard, local, sigmoid, sparsemax and entmax with a fixed alpha "
            f"up to 2; this is {type(plan.align).__name__}."
        )
    if type(plan.align) is TopK and plan.align.k > MOST and plan.m > MOST:
        why.append(f"It keeps up to {MOST} keys a row; this is TopK({plan.align.k}).")
    if not spannable(plan):
        why.append(
            "Its structures are causal, windows, padding, key masks, segments and predicted windows, not all of "
            f"them at once; this is {plan.over}."
        )
    if not why and type(plan.align) in (Hard, TopK) and moves(plan):
        why.append("Keys of segments out of order are chosen elsewhere: noise and choices belong to places.")
    if not why and plan.dropout and (type(plan.align) is Hard or moves(plan)):
        why.append("It drops no hard choice, and nothing where rows or keys change places, to which noise belongs.")
    why = why or _unfit_score(plan.shared, plan.v.shape[-1])
    if not why and isinstance(plan.align, Entmax) and not torch.compiler.is_compiling():
        core = plan.shared.core
        most = MOST_TILES * side_of(core.a, plan.v, bend_of(core)[2])
        if max(plan.n, plan.m) > most:
            why.append(
                f"It lists the tiles that hold weights, of up to {most:,} places; these are {max(plan.n, plan.m):,}."
            )
    return why


def unfit_call(plan: Plan) -> list[str]:
    """What no kernel over ranges knows: where and how a plan is called, whatever its score and alignment."""
    why = []
    if any_transformed((plan.q, plan.k, plan.v)):
        why.append('It does not run under vmap and the other transforms of torch.func: backend="reference" does.')
    if plan.q.dtype == torch.float64:
        why.append("Its sums are in fp32.")
    if plan.batch * plan.heads > MOST_HEADS:
        why.append(f"It runs up to {MOST_HEADS:,} heads of a batch; these are {plan.batch * plan.heads:,}.")
    if plan.score.stepwise or plan.align.stepwise:
        why.append("It scores all pairs at once; this mechanism goes step by step.")
    return why


def _unfit_score(score: Lowered, d_v: int) -> list[str]:
    core, why = score.core, []
    plain = isinstance(core, DotCore) or (
        isinstance(core, PairCore) and core.features is None and core.join == "add" and bend_of(core)[2] >= 0
    )
    if not plain or score.features is not None:
        return [f"It scores by a dot product or a pair with tanh, leaky ReLU or |x|; this is {core}."]
    if score.modifiers or score.sink is not None:
        why.append("It has no modifiers and no sink.")
    if max(core.a.shape[-1], d_v) > WIDEST:
        why.append(f"Its heads are up to {WIDEST} wide.")
    return why


def bend_of(core: Any) -> tuple[float, float, int]:
    if isinstance(core, DotCore):
        return 0.0, 0.0, 0
    if core.act == "tanh":
        return 0.0, 0.0, 1
    if core.act == "leaky_relu":
        return (1 + core.slope) / 2, (1 - core.slope) / 2, 2
    return BENT.get(core.act, (0.0, 0.0, -1))


def _aligned(plan: Plan) -> tuple[int, float, float | None]:
    """The alignment's number in the kernels (-1: unknown to them), alpha, and a sigmoid's bias."""
    align = plan.align
    if type(align) in (Softmax, Local, LocalPredictive, Hard, TopK):
        return 0, 1.0, None
    if type(align) is Sigmoid:
        return 1, 1.0, align.bias
    if type(align) in (Entmax, Sparsemax) and isinstance(align, Entmax) and align.raw is None and align.fixed <= 2:
        return {2.0: 2, 1.5: 3}.get(align.fixed, 4), align.fixed, None
    return -1, 1.0, None


@operator("dense_triton")
def dense_op(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key_bias: Tensor | None,
    row_bias: Tensor | None,
    centre: Tensor | None,
    lengths: Tensor | None,
    keep: Tensor | None,
    low: Tensor | None,
    high: Tensor | None,
    seed: Tensor | None,
    left: int,
    right: int,
    heads: int,
    core: int,
    scale: float,
    linear: float,
    bent: float,
    align: int,
    alpha: float,
    bias: float | None,
    narrow: float,
    dropout: float,
    trains: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (g, n, d_v), tau (g, n), which tiles hold weights, what the backward asks of rows (triton_dense_launch).

    b and v have as many heads as a, or a divisor of their number.
    """
    from .launch import run

    found: tuple[Tensor, Tensor, Tensor, Tensor] = run(
        a,
        b,
        v,
        readout,
        key_bias,
        row_bias,
        centre,
        lengths,
        keep,
        low,
        high,
        seed,
        left,
        right,
        heads,
        core,
        scale,
        linear,
        bent,
        align,
        alpha,
        bias,
        narrow,
        dropout,
        trains,
    )
    return found


@dense_op.register_fake
def _(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key_bias: Tensor | None,
    row_bias: Tensor | None,
    centre: Tensor | None,
    lengths: Tensor | None,
    keep: Tensor | None,
    low: Tensor | None,
    high: Tensor | None,
    seed: Tensor | None,
    left: int,
    right: int,
    heads: int,
    core: int,
    scale: float,
    linear: float,
    bent: float,
    align: int,
    alpha: float,
    bias: float | None,
    narrow: float,
    dropout: float,
    trains: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g, n = a.shape[0], a.shape[1]
    side = side_of(a, v, core)
    live = g * ((n + side - 1) // side) * ((b.shape[1] + side - 1) // side) if align > 1 else 0
    tau = v.new_empty((g, n), dtype=torch.float32)
    exact = 2 if v.dtype == torch.float32 else 1
    rows = (exact, g, n) if align == 0 else (g, n, v.shape[2]) if align > 1 and trains else (0,)
    return v.new_empty((g, n, v.shape[2])), tau, v.new_empty(live, dtype=torch.int8), tau.new_empty(rows)


@operator("dense_triton_backward")
def backward_op(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key_bias: Tensor | None,
    row_bias: Tensor | None,
    centre: Tensor | None,
    lengths: Tensor | None,
    keep: Tensor | None,
    low: Tensor | None,
    high: Tensor | None,
    seed: Tensor | None,
    left: int,
    right: int,
    heads: int,
    core: int,
    scale: float,
    linear: float,
    bent: float,
    align: int,
    alpha: float,
    bias: float | None,
    narrow: float,
    dropout: float,
    trains: bool,
    out: Tensor,
    tau: Tensor,
    live: Tensor,
    rows: Tensor,
    dout: Tensor,
) -> list[Tensor]:
    """Gradients of those of a, b, v, readout, key_bias, row_bias and centre that there are."""
    from .launch import run_back

    return list(
        run_back(
            a,
            b,
            v,
            readout,
            key_bias,
            row_bias,
            centre,
            lengths,
            keep,
            low,
            high,
            seed,
            left,
            right,
            heads,
            core,
            scale,
            linear,
            bent,
            align,
            alpha,
            bias,
            narrow,
            dropout,
            trains,
            out,
            tau,
            live,
            rows,
            dout,
        )
    )


@backward_op.register_fake
def _(*given: Any) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in given[:7] if x is not None]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors, ctx.numbers = inputs[:12], inputs[12:]
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.tape = getattr(output, "tape", None)  # of a call that was done again


def _autograd(ctx: Any, dout: Tensor, *_: Any) -> tuple[Any, ...]:
    tensors, pulled = gradients(ctx, backward_op, 12, dout)
    found = iter(pulled)
    grads = [None if x is None else next(found) for x in tensors[:7]]
    return *grads, *[None] * (5 + len(ctx.numbers))


dense_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("triton-dense")
