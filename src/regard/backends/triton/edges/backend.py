"""Triton edges: attention over a graph on a GPU, forward and backward, without a tensor wider than E x H.

What runs here: dot and additive scores (GAT, GATv2, tanh ...), keys and values of single edges, dropout; softmax in one
pass over the edges, sparsemax, entmax 1.5, top-k, sigmoid, ReLU and uniform through the weights of each edge.
The operators are registered here without importing Triton; kernels and launches are in the files beside it. The work
lists of a graph are made once and remembered for as long as its tensors live.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.backends.custom_op import operator
from regard.core.alignments import Entmax, ReLU, Sigmoid, Softmax, Sparsemax, TopK, Uniform
from regard.core.lowering.score_kernels import DotCore, PairCore
from regard.core.plan import Plan
from regard.core.registry import Backend, BackendResult
from regard.core.scores import Dot as DotScore
from regard.core.scores import GATv2, ScaledDot
from regard.core.structures.edges import Neighbours
from regard.core.tensor_cache import remembered
from regard.core.torch_private import any_transformed

from ..runtime.device_support import unable, untested_triton

WIDEST = 1024  # heads x width that one program holds in registers
SLOPES = {"relu": 0.0, "identity": 1.0}  # leaky ReLUs by another name


class TritonEdges(Backend):
    """Fused attention over edges on a GPU."""

    name = "triton-edges"

    def refusals(self, plan: Plan) -> list[str]:
        if not isinstance(plan.over, Neighbours):
            return ["It runs over Edges alone."]
        if (cannot := unable(plan.q.device)) is not None:
            return [cannot]
        why = []
        if any_transformed((plan.q, plan.k, plan.v)):
            why.append('It does not run under vmap and the other transforms of torch.func: backend="reference" does.')
        if _align_of(plan) is None or plan.factor is not None:
            why.append(
                "Its alignments are softmax, sparsemax, entmax 1.5, top-k, sigmoid, ReLU and uniform; this is "
                f"{type(plan.align).__name__}."
            )
        if plan.q.dtype == torch.float64:
            why.append("Its sums are in fp32.")
        if why:
            return why
        score = plan.problem.score
        if _kind(score.core) is None:
            why.append(f"It scores by a dot product or a pair with leaky ReLU or tanh; this is {score.core}.")
        if score.modifiers or score.sink is not None or score.key_bias is not None or score.row_bias is not None:
            why.append("It has no modifiers, sinks or biases.")
        if plan.heads * max(plan.v.shape[-1], score.core.a.shape[-1]) > WIDEST:
            why.append(f"A program holds all heads of a row, up to {WIDEST} numbers.")
        return why

    def plain_because(self) -> str | None:
        return untested_triton()

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        problem, graph = plan.problem, plan.over
        core, kind, aligned = problem.score.core, _kind(problem.score.core), _align_of(plan)
        assert isinstance(graph, Neighbours) and isinstance(core, (DotCore, PairCore))
        assert kind is not None and aligned is not None
        align = aligned[0]
        scale, slope, act = 1.0, 0.0, 0
        if isinstance(core, DotCore):
            scale = core.scale
        else:
            slope, act = SLOPES.get(core.act, core.slope), int(core.act == "tanh")
        shared = align == "softmax" and isinstance(plan.score, GATv2) and plan.k is plan.v
        own, join = problem.edge_value, 0
        if core.edge is not None:
            join = 2 if core.edge.join == "mul" else 1
        if align == "softmax" and join == 1 and _twins(plan):
            own, join = None, 3
        seed = problem.seed + 1 if problem.dropout and problem.seed is not None else None  # sampling draws from seed
        numbers = (kind, act, join, scale, slope, problem.dropout)
        outs, chosen = [], []
        for item in range(plan.batch):  # one graph for the whole batch

            def take(x: Tensor, item: int = item) -> Tensor:
                return x if plan.batch == 1 else x.unflatten(0, (plan.batch, plan.heads))[item]

            values = plan.v_by_head.squeeze(0) if plan.batch == 1 else plan.v_by_head[item]
            out, _, index = edges_op(
                _node_major(take(core.a)),
                _node_major(take(core.b)),
                None if shared else _node_major(values),
                _readout(core, take, plan.heads, kind),
                None if core.edge is None else _edge_major(take(core.edge.x)),
                None if own is None else _edge_major(take(own.x)),
                [graph.start, graph.source, graph.edge],
                seed,
                *numbers,
                item,
                *aligned,
            )
            outs.append(out.transpose(0, 1))
            chosen.append(index.transpose(0, 1))
        out = torch.stack(outs) if len(outs) > 1 else outs[0][None]
        return BackendResult(out, index=torch.cat(chosen) if align == "top_k" else None)


def _align_of(plan: Plan) -> tuple[str, float, int] | None:
    """The name of an alignment that runs here, the sigmoid's bias (NaN: -log of the number of neighbours), k."""
    align = plan.align
    plain = {Softmax: "softmax", ReLU: "relu", Uniform: "uniform"}.get(type(align))
    if plain is not None:
        return plain, 0.0, 0
    if type(align) in (Entmax, Sparsemax) and align.raw is None and align.fixed in (1.5, 2.0):
        return ("sparsemax" if align.fixed == 2.0 else "entmax"), 0.0, 0
    if type(align) is Sigmoid:
        return "sigmoid", float("nan") if align.bias is None else align.bias, 0
    return ("top_k", 0.0, align.k) if type(align) is TopK else None


def _kind(core: object) -> int | None:
    """0 GAT, 1 pair with a readout, 2 dot."""
    if isinstance(core, DotCore):
        return 2
    if not isinstance(core, PairCore) or core.join != "add" or core.features is not None:
        return None
    if core.act not in ("leaky_relu", "relu", "identity", "tanh"):
        return None
    plain = isinstance(core.readout, float) and core.readout == 1.0 and core.act != "tanh"
    return 0 if plain and core.a.shape[-1] == 1 else 1


def _readout(core: DotCore | PairCore, take: Callable[[Tensor], Tensor], heads: int, kind: int) -> Tensor | None:
    """(H, w) in fp32, for a pair."""
    if kind != 1 or not isinstance(core, PairCore):
        return None
    if isinstance(core.readout, Tensor):
        return take(core.readout).float().contiguous()
    assert core.readout is not None
    return torch.full((heads, core.a.shape[-1]), core.readout, device=core.a.device)


def _node_major(x: Tensor) -> Tensor:
    """(H, n, d) -> (n, H, d) with unit stride in d: a view where memory is node-major already."""
    x = x.transpose(0, 1)
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


def _edge_major(x: Tensor) -> Tensor:
    """The same for edges, whose numbers stand side by side too: their ids come in any order."""
    x = _node_major(x)
    return x.contiguous() if x.shape[-1] == 1 and x.stride(1) > 1 else x


def _twins(plan: Plan) -> bool:
    """Whether what an edge adds to the key is what it adds to the value, and the score takes it as it is."""
    key, value = plan.edge_key, plan.edge_value
    as_it_is = type(plan.score) in (DotScore, ScaledDot, GATv2)
    return as_it_is and key is not None and value is not None and key.x is value.x


def _graph(graph: list[Tensor], m: int) -> tuple[Any, ...]:
    """A graph both ways, and the ids of its edges, as `triton_edges_run` wants them."""
    from .call import of_graph
    from .csr_schedule import CSRSchedule

    start, source, edge = graph
    made = remembered((start, source), ("triton-edges", m), lambda: of_graph(CSRSchedule.of(start, source, m)))
    return *made, edge


@operator("edges_triton")
def edges_op(
    a: Tensor,
    b: Tensor,
    v: Tensor | None,
    r: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    graph: list[Tensor],
    seed: Tensor | None,
    kind: int,
    act: int,
    join: int,
    scale: float,
    slope: float,
    dropout: float,
    item: int,
    align: str,
    bias: float,
    top: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """out (n, H, d_v); for the backward tau (n, H) of a softmax, else the weights (E, H); ids (n, H, k) of top-k.

    v is None where the keys are the values. graph: start, source, edge.
    """
    from .call import run

    found: tuple[Tensor, Tensor, Tensor] = run(
        align,
        None if math.isnan(bias) else bias,
        top,
        *_graph(graph, b.shape[0]),
        a,
        b,
        v,
        r,
        key,
        value,
        seed,
        kind,
        act,
        join,
        scale,
        slope,
        dropout,
        item,
    )
    return found


@edges_op.register_fake
def _(
    a: Tensor,
    b: Tensor,
    v: Tensor | None,
    r: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    graph: list[Tensor],
    seed: Tensor | None,
    kind: int,
    act: int,
    join: int,
    scale: float,
    slope: float,
    dropout: float,
    item: int,
    align: str,
    bias: float,
    top: int,
) -> tuple[Tensor, Tensor, Tensor]:
    values, edges = b if v is None else v, graph[1].shape[0]
    n, heads = a.shape[0], a.shape[1]
    rows = n if align == "softmax" else edges
    return (
        values.new_empty((n, heads, values.shape[2])),
        values.new_empty((rows, heads), dtype=torch.float32),
        values.new_empty((n, heads, torch.sym_min(top, edges)), dtype=torch.int32),
    )


@operator("edges_triton_backward")
def backward_op(
    a: Tensor,
    b: Tensor,
    v: Tensor | None,
    r: Tensor | None,
    key: Tensor | None,
    value: Tensor | None,
    graph: list[Tensor],
    seed: Tensor | None,
    kind: int,
    act: int,
    join: int,
    scale: float,
    slope: float,
    dropout: float,
    item: int,
    align: str,
    out: Tensor,
    state: Tensor,
    dout: Tensor,
) -> list[Tensor]:
    """Gradients of a, b, v, r, key and value; an empty tensor where there is none (v shared with b, no readout)."""
    from .call import run_back

    return list(
        run_back(
            align,
            *_graph(graph, b.shape[0]),
            a,
            b,
            v,
            r,
            key,
            value,
            seed,
            kind,
            act,
            join,
            scale,
            slope,
            dropout,
            item,
            out,
            state,
            dout,
        )
    )


@backward_op.register_fake
def _(
    a: Tensor, b: Tensor, v: Tensor | None, r: Tensor | None, key: Tensor | None, value: Tensor | None, *rest: Any
) -> list[Tensor]:
    def like(x: Tensor | None) -> Tensor:
        return a.new_empty(0, dtype=torch.float32) if x is None else x.new_empty(x.shape)

    return [like(x) for x in (a, b, v, r, key, value)]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    a, b, v, r, key, value, graph, seed, *ctx.numbers = inputs
    out, state, index = output
    ctx.save_for_backward(a, b, v, r, key, value, *graph, seed, out, state)
    ctx.mark_non_differentiable(state, index)
    ctx.set_materialize_grads(False)  # no zeros for what has no gradient


def _autograd(ctx: Any, dout: Tensor, *_: Any) -> tuple[Any, ...]:
    *tables, start, source, edge, seed, out, state = ctx.saved_tensors
    *numbers, align, _, _ = ctx.numbers
    found = backward_op(*tables, [start, source, edge], seed, *numbers, align, out, state, dout)
    grads = [None if x is None else grad for x, grad in zip(tables, found, strict=True)]
    return *grads, [None] * 3, None, *[None] * len(ctx.numbers)


edges_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("triton-edges")
