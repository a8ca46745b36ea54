"""Softmax over the k best keys of each row on a GPU, in O(n k) memory; the keys are kept, so no tie is decided twice.

    w_is = exp(s_is - tau_i) over the k slots of row i,   out_i = sum_s w_is v_index(i, s)
    ds_is = w_is (dw_is - sum_t w_it dw_it),              dw_is = dout_i . v_index(i, s)

The operators are registered here without importing Triton. Ties go to the key that is seen first.
"""

from typing import Any

import torch
from torch import Tensor

from regard.backends.custom_op import operator
from regard.backends.flat_schema import takes
from regard.backends.segment_spans import Spans
from regard.core.alignments import RowState
from regard.core.alignments.alignment import log_sum_exp
from regard.core.lowering.tiles import Tile
from regard.core.plan import Plan
from regard.core.registry import BackendResult
from regard.core.scores.score import Lowered

from .arguments import TopkArguments

MAX_KEYS = 256  # of a row: its buffer has 512 scores


def keep_best(plan: Plan, score: Lowered, v: Tensor, spans: Spans, parts: tuple[Any, ...]) -> BackendResult:
    """parts: number of the core, scale, linear, bent, readout."""
    core, ranges, form = score.core, spans.ranges, plan.align.kernel_form()
    assert form is not None
    number, scale, linear, bent, readout = parts
    out, tau, index, _ = topk_op(
        core.a,
        core.b,
        v.flatten(0, 1),
        readout,
        score.key_bias,
        ranges.lengths,
        ranges.keep,
        spans.low,
        spans.high,
        plan.seed if plan.dropout else None,
        ranges.left,
        ranges.right,
        plan.heads,
        number,
        scale,
        linear,
        bent,
        torch.sym_min(form.top, plan.m),
        plan.dropout,
    )
    return BackendResult(out.unflatten(0, (plan.batch, plan.heads)), RowState(tau, index))


def _after_dropout(p: Tensor, index: Tensor, seed: Tensor | None, heads: int, dropout: float) -> Tensor:
    """Weights (g, n, k) as they multiply values: the noise belongs to the pair, whichever slot holds it."""
    if seed is None:
        return p
    g, n, _ = index.shape
    head = torch.arange(g, device=index.device)[:, None, None]
    row, key = torch.arange(n, device=index.device)[None, :, None], index.clamp_min(0).long()
    drawn = Tile(head // heads, head % heads, row, key, n, 0).uniform(seed + 1)
    return p * ((drawn >= dropout) / (1 - dropout))


@operator("topk_triton")
@takes(TopkArguments)
def topk_op(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (g, n, d_v), tau (g, n), the keys (g, n, k) and their weights before dropout."""
    from .topk_launch import averaged, best

    given = TopkArguments(*arguments)
    values, index = best(given)
    tau = log_sum_exp(values)
    p = torch.softmax(values, -1).masked_fill_(index < 0, 0.0)
    dropped = _after_dropout(p, index, given.seed, given.heads, given.dropout)
    return averaged(dropped, index, given.v), tau, index, p


@topk_op.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    given = TopkArguments(*arguments)
    v, g, n, k = given.v, given.a.shape[0], given.a.shape[1], given.k
    wide = v.new_empty((g, n, k), dtype=torch.float32)
    return v.new_empty((g, n, v.shape[2])), wide.new_empty((g, n)), wide.new_empty((g, n, k), dtype=torch.int32), wide


@operator("topk_triton_backward")
def backward_op(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key_bias: Tensor | None,
    seed: Tensor | None,
    heads: int,
    core: int,
    scale: float,
    linear: float,
    bent: float,
    dropout: float,
    index: Tensor,
    p: Tensor,
    dout: Tensor,
) -> list[Tensor]:
    """Gradients of a, b, v, readout and key_bias; an empty tensor where there is none."""
    from .topk_launch import pulled

    w = _after_dropout(p, index, seed, heads, dropout)
    found = pulled(a, b, v, readout, core, scale, linear, bent, index, p, w, dout)
    given = (a, b, v, readout, key_bias)
    return [a.new_empty(0) if x is None or y is None else y.to(x.dtype) for x, y in zip(given, found, strict=True)]


@backward_op.register_fake
def _(*given: Any) -> list[Tensor]:
    return [given[0].new_empty(0) if x is None else x.new_empty(x.shape) for x in given[:5]]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    given = TopkArguments(*inputs)
    ctx.numbers = (given.heads, given.core, given.scale, given.linear, given.bent, given.dropout)
    ctx.save_for_backward(*given[:5], given.seed, *output[2:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, dout: Tensor, *_: Any) -> tuple[Any, ...]:
    *tensors, seed, index, p = ctx.saved_tensors
    found = backward_op(*tensors, seed, *ctx.numbers, index, p, dout)
    return *(None if x is None else y for x, y in zip(tensors, found, strict=True)), *[None] * 14


topk_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("triton-dense")
