"""Edges on a CPU: graph attention by numba kernels, forward and backward, without a tensor wider than E x H.

What runs here: a graph alone (`Edges`), with keys and values of its edges; dot and additive scores; softmax, top-k,
sparsemax, entmax 1.5, sigmoid, uniform; dropout. Everything else is left to chunked. numba is imported on the first
call and compiles then (seconds; the result is kept on disk). Threads are our own, as many as torch.get_num_threads(),
and numba's threading layers are never used: they are not safe to call from several threads. After a fork the child
starts threads of its own; numba itself asks for spawn.
"""

import math
import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.core.alignments import RowState
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.errors import Refused
from regard.core.lowering.kernel_forms import BEST_KEYS, DOT, EDGE_LIST, KINKED, SIGMOID, TANH, core_families
from regard.core.lowering.score_kernels import DotCore, PairCore
from regard.core.lowering.support import NO_TRANSFORMS, Support
from regard.core.plan import Plan
from regard.core.registry import Backend, BackendResult
from regard.core.structures.edges import Neighbours, neighbours_of
from regard.core.torch_private import any_transformed

from ..custom_op import operator
from ..flat_schema import takes
from .arguments import DIFFERENTIABLE, EdgeCpuArguments

HAS_NUMBA = find_spec("numba") is not None  # looked for, not imported
NO_NUMBA = "numba is not installed: pip install 'regard[cpu]'."
WARN_FROM = 10_000  # edges, of which the other backends take long
# Families of alignments, and codes of activations, by the word that the operator has for each.
ALIGNMENTS = {
    "softmax": "softmax",
    "top-k": "topk",
    "sparsemax": "sparsemax",
    "entmax 1.5": "entmax",
    "sigmoid": "sigmoid",
    "uniform": "uniform",
}
ACTIVATIONS = {KINKED: "leaky_relu", TANH: "tanh"}


class EdgesCpu(Backend):
    """Attention over edges by numba kernels on a CPU."""

    name = "edges-cpu"
    support = Support(tuple(ALIGNMENTS), (EDGE_LIST,), core_families((DOT, KINKED, TANH)))

    def refusals(self, plan: Plan) -> list[str]:
        graph = neighbours_of(plan.over)
        if graph is None:
            return ["It runs along the edges of a graph: over=Edges(...)."]
        on_cpu, why = plan.q.device.type == "cpu", []
        if not on_cpu:
            why.append(f"It runs on a CPU, and q is on {plan.q.device}.")
        if plan.over is not graph:
            why.append("It runs a graph alone, not a graph & another structure.")
        why += self.support.alignment_refusals(plan)
        if any_transformed((plan.q, plan.k, plan.v)):
            why.append(NO_TRANSFORMS)
        why = why or self.support.score_refusals(plan.problem.score)
        if HAS_NUMBA or not on_cpu:
            return why
        if not why and graph.source.numel() >= WARN_FROM and not torch.compiler.is_compiling():
            warnings.warn(f"So many edges take several times as long without a kernel: {NO_NUMBA}", stacklevel=4)
        return [NO_NUMBA, *why]

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        from .launch import by_source

        problem, graph, form = plan.problem, neighbours_of(plan.over), plan.align.kernel_form()
        core = problem.score.core
        assert graph is not None and form is not None and isinstance(core, (DotCore, PairCore))
        act, slope, readout, number = "dot", 0.0, None, 1.0
        if isinstance(core, DotCore):
            number = core.scale
        else:
            scored = core.kernel_form()
            assert scored is not None
            act, slope = ACTIVATIONS[scored.code], scored.slope
            readout, number = (None, core.readout) if isinstance(core.readout, float) else (core.readout, 1.0)
        key, value = core.edge, problem.edge_value
        join = "add" if key is None else key.join
        tensors = (
            core.a,
            core.b,
            plan.v_by_head.flatten(0, 1),
            readout,
            None if key is None else key.x,
            None if value is None else value.x,
        )
        trains = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
        edges = [graph.start, graph.source, graph.edge, *(by_source(graph, plan.m) if trains else ())]
        bias = math.nan if form.function == SIGMOID and form.bias is None else form.bias or 0.0
        top = _top(form.top, graph) if form.keys == BEST_KEYS else 0
        seed = problem.seed if plan.dropout else None
        kinds, numbers = f"{act} {ALIGNMENTS[form.family]} {join}", [slope, number, bias, plan.dropout]
        out, tau, index = forward_op(*tensors, edges, seed, plan.heads, top, kinds, numbers)
        chosen = index.transpose(1, 2).flatten(0, 1) if top else None
        if top == 0 and form.keys == BEST_KEYS:  # a graph without edges: no row has chosen any
            chosen = index.new_empty((plan.batch * plan.heads, plan.n, 0))
        return BackendResult(out, RowState(tau.flatten(0, 1), chosen))


def _top(k: int, graph: Neighbours) -> int:
    """k, or the largest number of neighbours where that is less."""
    if torch.compiler.is_compiling():
        return k
    degree = graph.start.diff()
    return min(k, cached_by_tensor((graph.start,), "most", lambda: int(degree.max()) if degree.numel() else 0))


_Forward = tuple[Tensor, Tensor, Tensor]
_Backward = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@operator("edges_cpu")
@takes(EdgeCpuArguments)
def forward_op(*arguments: Any) -> _Forward:
    """out (B, H, n, d_v) and tau (B, H, n), node-major in memory; index (B, n, H, k) of top-k."""
    from .launch import NumbaCall

    return NumbaCall(EdgeCpuArguments(*arguments)).forward()


@forward_op.register_fake
def _(*arguments: Any) -> _Forward:
    call = EdgeCpuArguments(*arguments)
    a, v, heads, top = call.a, call.v, call.heads, call.top
    batch, n = a.shape[0] // heads, a.shape[1]
    tau = torch.float64 if torch.float64 in (a.dtype, v.dtype) else torch.float32
    out = v.new_empty((batch, n, heads, v.shape[2])).transpose(1, 2)
    chosen = (batch, n, heads, top) if top else (batch, 1, 1, 0)
    return out, a.new_empty((batch, n, heads), dtype=tau).transpose(1, 2), a.new_empty(chosen, dtype=torch.int32)


@operator("edges_cpu_backward")
@takes(EdgeCpuArguments, out=Tensor, tau=Tensor, index=Tensor, dout=Tensor, dtau=Tensor | None)
def backward_op(*arguments: Any) -> _Backward:
    """Gradients of the inputs, empty where there is none."""
    from .launch import NumbaCall

    call = EdgeCpuArguments(*arguments[:-5])
    grads = NumbaCall(call).backward(*arguments[-5:])
    da, db, dv, dread, dkey, dvalue = (call.a.new_empty(0) if grad is None else grad for grad in grads)
    return da, db, dv, dread, dkey, dvalue


@backward_op.register_fake
def _(*arguments: Any) -> _Backward:
    call = EdgeCpuArguments(*arguments[:-5])
    da, db, dv, dkey, dvalue = (
        call.a.new_empty(0)
        if x is None
        else x.new_empty((x.shape[0] // call.heads, x.shape[1], call.heads, x.shape[2])).transpose(1, 2).flatten(0, 1)
        for x in (call.a, call.b, call.v, call.key, call.value)
    )
    if call.readout is None:
        return da, db, dv, call.a.new_empty(0), dkey, dvalue
    return da, db, dv, torch.empty_like(call.readout, memory_format=torch.contiguous_format), dkey, dvalue


def _setup(ctx: Any, inputs: tuple[Any, ...], output: _Forward) -> None:
    tensors, (edges, seed), ctx.settings = inputs[:DIFFERENTIABLE], inputs[DIFFERENTIABLE:8], inputs[8:]
    ctx.count = len(edges)
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
    raise Refused(f'backend "edges-cpu" refuses: {NO_TRANSFORMS}')


forward_op.register_autograd(_autograd, setup_context=_setup)
backward_op.once_differentiable("edges-cpu")
forward_op.register_vmap(_no_vmap)
backward_op.register_vmap(_no_vmap)
