"""Edges on a CPU: graph attention by numba kernels, forward and backward, without a tensor wider than E x H.

What runs here: a graph alone (`Edges`), dot and additive scores, softmax, sparsemax, entmax 1.5, sigmoid, uniform,
dropout. Everything else is left to chunked. numba is imported on the first call and compiles then (seconds; the result
is kept on disk). The threads are ours, as many as torch.get_num_threads(), and numba's threading layers are never
used: they are not safe to call from several threads. After a fork the child starts threads of its own; numba itself
asks for spawn.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.alignments import Entmax, RowState, Sigmoid, Softmax, Uniform
from ..core.cores import Dot, Pair
from ..core.edges import neighbours_of
from ..core.errors import Refused
from ..core.plan import Plan
from ..core.registry import Ran
from .edges_launch import ACTS, Call
from .operator import operator

HAS_NUMBA = find_spec("numba") is not None  # looked for, not imported


class EdgesCpu:
    name = "edges-cpu"

    def refusals(self, plan: Plan) -> list[str]:
        graph = neighbours_of(plan.over)
        if graph is None:
            return ["It runs along the edges of a graph: over=Edges(...)."]
        found = []
        if plan.q.device.type != "cpu":
            found.append(f"It runs on a CPU, and q is on {plan.q.device}.")
        elif not HAS_NUMBA:
            found.append("numba is not installed: pip install 'regard[cpu]'.")
        if plan.over is not graph:
            found.append("It runs a graph alone, not a graph & another structure.")
        if _align_of(plan) is None:
            found.append(
                f"{type(plan.align).__name__} is not among its alignments: "
                "softmax, sparsemax, entmax 1.5, sigmoid, uniform."
            )
        if not torch.compiler.is_compiling() and _transformed(plan):
            found.append(_NO_FUNC)
        if not found:
            found += _score_refusals(plan)
        return found

    def passes(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> Ran:
        problem, graph = plan.problem, neighbours_of(plan.over)
        core = problem.score.core
        assert graph is not None and isinstance(core, (Dot, Pair))
        v = plan.v_by_head.flatten(0, 1)
        act, slope, readout, number = "dot", 0.0, None, 1.0
        if isinstance(core, Dot):
            number = core.scale
        else:
            act, slope = core.act, {"relu": 0.0, "identity": 1.0}.get(core.act, core.slope)
            readout, number = (None, core.readout) if isinstance(core.readout, float) else (core.readout, 1.0)
        tensors = [x for x in (core.a, core.b, v, readout) if x is not None]
        trained = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
        edges = [graph.start, graph.source, graph.edge, *(graph.by_source(plan.m) if trained else ())]
        align, bias = _align_of(plan) or ("", 0.0)
        out, tau = forward_op(
            core.a,
            core.b,
            v,
            readout,
            edges,
            problem.seed if plan.dropout else None,
            plan.heads,
            act,
            slope,
            number,
            align,
            bias,
            plan.dropout,
        )
        return Ran(out, RowState(tau.flatten(0, 1)))


_NO_FUNC = 'It does not run under vmap and the other transforms of torch.func: backend="reference" does.'


def _transformed(plan: Plan) -> bool:
    return any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in (plan.q, plan.k, plan.v))


def _align_of(plan: Plan) -> tuple[str, float] | None:
    """The name of an alignment that runs here, and the sigmoid's bias (NaN: -log of the number of neighbours)."""
    align = plan.align
    if type(align) is Softmax:
        return "softmax", 0.0
    if isinstance(align, Entmax) and align.raw is None and align.fixed in (1.5, 2.0):
        return ("entmax" if align.fixed == 1.5 else "sparsemax"), 0.0
    if isinstance(align, Sigmoid):
        return "sigmoid", float("nan") if align.bias is None else align.bias
    return ("uniform", 0.0) if isinstance(align, Uniform) else None


def _score_refusals(plan: Plan) -> list[str]:
    """Asked last, because it lowers the score."""
    score, found = plan.problem.score, []
    core = score.core
    if not isinstance(core, (Dot, Pair)):
        found.append("A score of your own does not run here.")
    elif isinstance(core, Pair):
        if core.features is not None or core.join != "add":
            found.append("Feature-wise weights do not run here.")
        elif core.act not in ACTS:
            found.append(f"A pair score runs here with {', '.join(ACTS)}, not with {core.act}.")
    for name, value in score.fields_of():
        if name != "core" and value is not None and value != ():
            found.append(f"A score with {name.replace('_', ' ')} does not run here.")
    if plan.edge_key is not None or plan.edge_value is not None:
        found.append("Keys and values of single edges do not run here.")
    if plan.problem.factor is not None:
        found.append("Weights times a bell do not run here.")
    return found


# ---- the operators ----

_Two = tuple[Tensor, Tensor]


@operator("edges_cpu")
def forward_op(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    act: str,
    slope: float,
    number: float,
    align: str,
    bias: float,
    dropout: float,
) -> _Two:
    """out (B, H, n, d_v) and tau (B, H, n), node-major in memory, from a (g, n, w), b (g, m, w), v (g, m, d_v).

    edges: start, source, edge and, for gradients, the same by source: start, target, slot. number: the scale of a dot,
    or a readout (g, w) that is the same everywhere.
    """
    call = Call(a, b, v, readout, edges, seed, heads, act, slope, number, align, bias, dropout)
    batch, n, width = a.shape[0] // heads, a.shape[1], v.shape[2]
    out, tau = call.empty(batch, n, heads * width), call.empty(batch, n, heads)
    for item in range(batch):
        call.forward(item, out[item], tau[item])
    made = torch.from_numpy(out).view(batch, n, heads, width).transpose(1, 2)
    return made.to(v.dtype), torch.from_numpy(tau).transpose(1, 2)


@forward_op.register_fake
def _(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    *rest: Any,
) -> _Two:
    batch, n = a.shape[0] // heads, a.shape[1]
    tau = torch.float64 if torch.float64 in (a.dtype, v.dtype) else torch.float32
    out = v.new_empty((batch, n, heads, v.shape[2])).transpose(1, 2)
    return out, a.new_empty((batch, n, heads), dtype=tau).transpose(1, 2)


@operator("edges_cpu_backward")
def backward_op(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    act: str,
    slope: float,
    number: float,
    align: str,
    bias: float,
    dropout: float,
    out: Tensor,
    tau: Tensor,
    dout: Tensor,
    dtau: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of a, b, v and readout (empty where there is none)."""
    call = Call(a, b, v, readout, edges, seed, heads, act, slope, number, align, bias, dropout)
    outs, pulls, taus = (
        call.table(out.flatten(0, 1)),
        call.table(dout.flatten(0, 1)),
        call.table(tau.flatten(0, 1)[..., None]),
    )
    more = None if dtau is None or align != "softmax" else call.table(dtau.flatten(0, 1)[..., None])
    items = [
        call.backward(item, outs[item], taus[item], pulls[item], None if more is None else more[item])
        for item in range(call.batch)
    ]
    da, db, dv = (_heads_first([item[k] for item in items], heads, x) for k, x in enumerate((a, b, v)))
    if readout is None:
        return da, db, dv, a.new_empty(0)
    dread = np.stack([item[3] for item in items]).reshape(readout.shape)
    return da, db, dv, torch.from_numpy(dread).to(readout.dtype)


def _heads_first(items: list[np.ndarray], heads: int, like: Tensor) -> Tensor:
    """(g, nodes, w) of node-major tables (nodes, heads x w), one an item of the batch."""
    made = torch.from_numpy(items[0])[None] if len(items) == 1 else torch.from_numpy(np.stack(items))
    made = made.view(len(items), -1 if made.numel() else like.shape[1], heads, like.shape[2])
    return made.transpose(1, 2).flatten(0, 1).to(like.dtype)


@backward_op.register_fake
def _(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    da, db, dv = (
        x.new_empty((x.shape[0] // heads, x.shape[1], heads, x.shape[2])).transpose(1, 2).flatten(0, 1)
        for x in (a, b, v)
    )
    return (
        da,
        db,
        dv,
        a.new_empty(0) if readout is None else torch.empty_like(readout, memory_format=torch.contiguous_format),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: _Two) -> None:
    a, b, v, readout, edges, seed, *ctx.rest = inputs
    ctx.count = len(edges)
    ctx.save_for_backward(a, b, v, readout, seed, *output, *edges)
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, dout: Tensor | None, dtau: Tensor | None) -> tuple[Any, ...]:
    a, b, v, readout, seed, out, tau, *edges = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    da, db, dv, dread = backward_op(a, b, v, readout, edges, seed, *ctx.rest, out, tau, dout, dtau)
    return da, db, dv, None if readout is None else dread, [None] * ctx.count, *([None] * (1 + len(ctx.rest)))


def _no_second_derivative(ctx: Any, *grads: Any) -> Any:
    raise Refused('backend "edges-cpu" has no second derivative: attend(..., backend="reference") has.')


def _no_vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
    raise Refused(f'backend "edges-cpu" refuses: {_NO_FUNC}')


forward_op.register_autograd(_autograd, setup_context=_setup)
backward_op.register_autograd(_no_second_derivative)
forward_op.register_vmap(_no_vmap)
backward_op.register_vmap(_no_vmap)
