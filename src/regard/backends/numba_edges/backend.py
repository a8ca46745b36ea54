"""Edges on a CPU: graph attention by numba kernels, forward and backward, without a tensor wider than E x H.

What runs here: a graph alone (`Edges`), with keys and values of its edges; dot and additive scores; softmax, top-k,
sparsemax, entmax 1.5, sigmoid, uniform; dropout. Everything else is left to chunked. numba is imported on the first
call and compiles then (seconds; the result is kept on disk). Threads are our own, as many as torch.get_num_threads(),
and numba's threading layers are never used: they are not safe to call from several threads. After a fork the child
starts threads of its own; numba itself asks for spawn.
"""

import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import Entmax, RowState, Sigmoid, Softmax, TopK, Uniform
from regard.core.errors import Refused
from regard.core.lowering.score_kernels import DotCore, PairCore
from regard.core.plan import Plan
from regard.core.registry import Backend, BackendResult
from regard.core.structures.edges import Neighbours, neighbours_of
from regard.core.tensor_cache import remembered
from regard.core.torch_private import any_transformed

from ..custom_op import operator
from .call import ACTS, GradientInputs, Settings

HAS_NUMBA = find_spec("numba") is not None  # looked for, not imported
NO_NUMBA = "numba is not installed: pip install 'regard[cpu]'."
WARN_FROM = 10_000  # edges, of which the other backends take long


class EdgesCpu(Backend):
    """Attention over edges by numba kernels on a CPU."""

    name = "edges-cpu"

    def refusals(self, plan: Plan) -> list[str]:
        graph = neighbours_of(plan.over)
        if graph is None:
            return ["It runs along the edges of a graph: over=Edges(...)."]
        found = []
        if plan.q.device.type != "cpu":
            found.append(f"It runs on a CPU, and q is on {plan.q.device}.")
        elif not HAS_NUMBA:
            found.append(NO_NUMBA)
        if plan.over is not graph:
            found.append("It runs a graph alone, not a graph & another structure.")
        if _align_of(plan) is None:
            found.append(
                f"{type(plan.align).__name__} is not among its alignments: "
                "softmax, top-k, sparsemax, entmax 1.5, sigmoid, uniform."
            )
        if any_transformed((plan.q, plan.k, plan.v)):
            found.append(_NO_FUNC)
        if not found or found == [NO_NUMBA]:
            found += _score_refusals(plan)
        if found == [NO_NUMBA] and graph.source.numel() >= WARN_FROM and not torch.compiler.is_compiling():
            warnings.warn(f"So many edges take several times as long without a kernel: {NO_NUMBA}", stacklevel=4)
        return found

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        from .launch import by_source

        problem, graph = plan.problem, neighbours_of(plan.over)
        core = problem.score.core
        assert graph is not None and isinstance(core, (DotCore, PairCore))
        act, slope, readout, number, join = "dot", 0.0, None, 1.0, "add"
        if isinstance(core, DotCore):
            number = core.scale
        else:
            act, slope = core.act, {"relu": 0.0, "identity": 1.0}.get(core.act, core.slope)
            readout, number = (None, core.readout) if isinstance(core.readout, float) else (core.readout, 1.0)
        key, value = core.edge, problem.edge_value
        join = "add" if key is None else key.join
        inputs = GradientInputs(
            core.a,
            core.b,
            plan.v_by_head.flatten(0, 1),
            readout,
            None if key is None else key.x,
            None if value is None else value.x,
        )
        trained = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
        edges = [graph.start, graph.source, graph.edge, *(by_source(graph, plan.m) if trained else ())]
        align, bias = _align_of(plan) or ("", 0.0)
        top = _top(plan.align.k, graph) if isinstance(plan.align, TopK) else 0
        settings = Settings(plan.heads, top, f"{act} {align} {join}", [slope, number, bias, plan.dropout])
        seed = problem.seed if plan.dropout else None
        out, tau, index = forward_op(*inputs, edges, seed, *settings)
        chosen = index.transpose(1, 2).flatten(0, 1) if top else None
        if top == 0 and isinstance(plan.align, TopK):  # a graph without edges: no row has chosen any
            chosen = index.new_empty((plan.batch * plan.heads, plan.n, 0))
        return BackendResult(out, RowState(tau.flatten(0, 1), chosen))


_NO_FUNC = 'It does not run under vmap and the other transforms of torch.func: backend="reference" does.'


def _align_of(plan: Plan) -> tuple[str, float] | None:
    """The name of an alignment that runs here, and the sigmoid's bias (NaN: -log of the number of neighbours)."""
    align = plan.align
    if type(align) is Softmax:
        return "softmax", 0.0
    if type(align) is TopK:
        return "topk", 0.0
    if isinstance(align, Entmax) and align.raw is None and align.fixed in (1.5, 2.0):
        return ("entmax" if align.fixed == 1.5 else "sparsemax"), 0.0
    if isinstance(align, Sigmoid):
        return "sigmoid", float("nan") if align.bias is None else align.bias
    return ("uniform", 0.0) if isinstance(align, Uniform) else None


def _top(k: int, graph: Neighbours) -> int:
    """k, or the largest number of neighbours where that is less."""
    if torch.compiler.is_compiling():
        return k
    degree = graph.start.diff()
    return min(k, remembered((graph.start,), "most", lambda: int(degree.max()) if degree.numel() else 0))


def _score_refusals(plan: Plan) -> list[str]:
    """Asked last, because it lowers the score."""
    score, found = plan.problem.score, []
    core = score.core
    if not isinstance(core, (DotCore, PairCore)):
        found.append("A score of your own does not run here.")
    elif isinstance(core, PairCore):
        if core.features is not None or core.join != "add":
            found.append("Feature-wise weights do not run here.")
        elif core.act not in ACTS:
            found.append(f"A pair score runs here with {', '.join(ACTS)}, not with {core.act}.")
    for name, value in score.fields_of():
        if name != "core" and value is not None and value != ():
            found.append(f"A score with {name.replace('_', ' ')} does not run here.")
    if plan.problem.factor is not None:
        found.append("Weights times a bell do not run here.")
    return found


# ---- the operators ----

_Forward = tuple[Tensor, Tensor, Tensor]
_Backward = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@operator("edges_cpu")
def forward_op(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    top: int,
    way: str,
    numbers: list[float],
) -> _Forward:
    """out (B, H, n, d_v) and tau (B, H, n), node-major in memory; index (B, n, H, k) of top-k.

    See `call` for the arguments. `way` is Settings.kinds, under the name that exported programs hold.
    """
    from .launch import NumbaCall

    call = NumbaCall(GradientInputs(a, b, v, readout, key, value), edges, seed, Settings(heads, top, way, numbers))
    return call.forward()


@forward_op.register_fake
def _(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    top: int,
    *rest: Any,
) -> _Forward:
    batch, n = a.shape[0] // heads, a.shape[1]
    tau = torch.float64 if torch.float64 in (a.dtype, v.dtype) else torch.float32
    out = v.new_empty((batch, n, heads, v.shape[2])).transpose(1, 2)
    chosen = (batch, n, heads, top) if top else (batch, 1, 1, 0)
    return (
        out,
        a.new_empty((batch, n, heads), dtype=tau).transpose(1, 2),
        a.new_empty(chosen, dtype=torch.int32),
    )


@operator("edges_cpu_backward")
def backward_op(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    top: int,
    way: str,
    numbers: list[float],
    out: Tensor,
    tau: Tensor,
    index: Tensor,
    dout: Tensor,
    dtau: Tensor | None,
) -> _Backward:
    """Gradients of the inputs, empty where there is none."""
    from .launch import NumbaCall

    call = NumbaCall(GradientInputs(a, b, v, readout, key, value), edges, seed, Settings(heads, top, way, numbers))
    da, db, dv, *rest = (
        a.new_empty(0) if grad is None else grad for grad in call.backward(out, tau, index, dout, dtau)
    )
    return da, db, dv, rest[0], rest[1], rest[2]


@backward_op.register_fake
def _(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    readout: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    edges: list[Tensor],
    seed: Tensor | None,
    heads: int,
    *rest: Any,
) -> _Backward:
    da, db, dv, dkey, dvalue = (
        a.new_empty(0)
        if x is None
        else x.new_empty((x.shape[0] // heads, x.shape[1], heads, x.shape[2])).transpose(1, 2).flatten(0, 1)
        for x in (a, b, v, key, value)
    )
    dread = a.new_empty(0) if readout is None else torch.empty_like(readout, memory_format=torch.contiguous_format)
    return da, db, dv, dread, dkey, dvalue


def _setup(ctx: Any, inputs: tuple[Any, ...], output: _Forward) -> None:
    *tensors, edges, seed, heads, top, way, numbers = inputs
    ctx.settings, ctx.count = (heads, top, way, numbers), len(edges)
    ctx.save_for_backward(*tensors, seed, *output, *edges)
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, dout: Tensor | None, dtau: Tensor | None, _: Tensor | None) -> tuple[Any, ...]:
    a, b, v, readout, key, value, seed, out, tau, index, *edges = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    given = (a, b, v, readout, key, value)
    grads = backward_op(*given, edges, seed, *ctx.settings, out, tau, index, dout, dtau)
    found = [None if x is None else grad for x, grad in zip(given, grads, strict=True)]
    return *found, [None] * ctx.count, None, None, None, None, None


def _no_vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
    raise Refused(f'backend "edges-cpu" refuses: {_NO_FUNC}')


forward_op.register_autograd(_autograd, setup_context=_setup)
backward_op.once_differentiable("edges-cpu")
forward_op.register_vmap(_no_vmap)
backward_op.register_vmap(_no_vmap)
