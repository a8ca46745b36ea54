"""Triton edges: attention over a graph on a GPU, forward and backward, without a tensor wider than E x H.

What runs here: dot and additive scores (GAT, GATv2, tanh ...), keys and values of single edges, dropout; softmax in one
pass over the edges, sparsemax, entmax 1.5, top-k, sigmoid, ReLU and uniform through the weights of each edge.
The operators are registered here without importing Triton; kernels and launches are in the files beside it. The work
lists of a graph are cached for as long as its tensors live.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.backends.custom_op import operator
from regard.backends.flat_schema import leading_tensors, takes
from regard.core.caches.tensor_cache import cached_by_tensor
from regard.core.lowering.kernel_forms import DOT, EDGE_LIST, KINKED, SIGMOID, TANH, core_families
from regard.core.lowering.score_kernels import DotCore, PairCore
from regard.core.lowering.support import NO_TRANSFORMS, Support
from regard.core.plan import Plan
from regard.core.registry import Backend, BackendResult
from regard.core.structures.edges import Neighbours
from regard.core.torch_private import any_transformed

from ..runtime.device_support import device_refusal, untested_triton

MAX_WIDTH = 1024  # heads x width that one program holds in registers
# Families of alignments that the kernels run, and what their operator calls them.
ALIGNMENTS = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "entmax 1.5": "entmax",
    "top-k": "top_k",
    "sigmoid": "sigmoid",
    "ReLU": "relu",
    "uniform": "uniform",
}


class TritonEdges(Backend):
    """Fused attention over edges on a GPU."""

    name = "triton-edges"
    support = Support(tuple(ALIGNMENTS), (EDGE_LIST,), core_families((DOT, KINKED, TANH)))

    def refusals(self, plan: Plan) -> list[str]:
        if not isinstance(plan.over, Neighbours):
            return ["It runs over Edges alone."]
        if (cannot := device_refusal(plan.q.device)) is not None:
            return [cannot]
        why = []
        if any_transformed((plan.q, plan.k, plan.v)):
            why.append(NO_TRANSFORMS)
        why += self.support.alignment_refusals(plan)
        if plan.q.dtype == torch.float64:
            why.append("Its sums are in fp32.")
        if why:
            return why
        score = plan.problem.score
        why = self.support.score_refusals(score)
        if plan.heads * max(plan.v.shape[-1], score.core.a.shape[-1]) > MAX_WIDTH:
            why.append(f"A program holds all heads of a row, up to {MAX_WIDTH} numbers.")
        return why

    def plain_because(self) -> str | None:
        return untested_triton()

    def defers(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> BackendResult:
        problem, graph = plan.problem, plan.over
        core, kind, form = problem.score.core, _kind(problem.score.core), plan.align.kernel_form()
        assert isinstance(graph, Neighbours) and isinstance(core, (DotCore, PairCore))
        scored = core.kernel_form()
        assert form is not None and scored is not None
        align = ALIGNMENTS[form.family]
        bias = math.nan if form.function == SIGMOID and form.bias is None else form.bias or 0.0
        scale = core.scale if isinstance(core, DotCore) else 1.0
        shared = align == "softmax" and kind == PAIR and plan.score.keeps_keys() and plan.k is plan.v
        own, join = problem.edge_value, 0
        if core.edge is not None:
            join = 2 if core.edge.join == "mul" else 1
        if align == "softmax" and join == 1 and _twins(plan):
            own, join = None, 3
        seed = problem.seed + 1 if problem.dropout and problem.seed is not None else None  # sampling draws from seed
        numbers = (kind, int(scored.code == TANH), join, scale, scored.slope, problem.dropout)
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
                align,
                bias,
                form.top,
            )
            outs.append(out.transpose(0, 1))
            chosen.append(index.transpose(0, 1))
        out = torch.stack(outs) if len(outs) > 1 else outs[0][None]
        return BackendResult(out, index=torch.cat(chosen) if align == "top_k" else None)


NARROW, PAIR, DOTS = range(3)  # `EdgeArguments.kind`


def _kind(core: object) -> int:
    """NARROW: one number a node and head, as GAT has; PAIR, with a readout; DOTS."""
    if not isinstance(core, PairCore):
        return DOTS
    form = core.kernel_form()
    plain = isinstance(core.readout, float) and core.readout == 1.0 and form is not None and form.code != TANH
    return NARROW if plain and core.a.shape[-1] == 1 else PAIR


def _readout(core: DotCore | PairCore, take: Callable[[Tensor], Tensor], heads: int, kind: int) -> Tensor | None:
    """(H, w) in fp32, for a pair."""
    if kind != PAIR or not isinstance(core, PairCore):
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
    return plan.score.keeps_keys() and key is not None and value is not None and key.x is value.x


def _graph(graph: list[Tensor], m: int) -> tuple[Any, ...]:
    """A graph both ways, and the ids of its edges, as `replayed_calls.run` takes them."""
    from .csr_schedule import CSRSchedule
    from .replayed_calls import of_graph

    start, source, edge = graph
    made = cached_by_tensor((start, source), ("triton-edges", m), lambda: of_graph(CSRSchedule.of(start, source, m)))
    return *made, edge


class EdgeArguments(NamedTuple):
    """What both operators over edges take, in the order of their schema."""

    a: Tensor  # (n, H, d)
    b: Tensor  # (m, H, d)
    v: Tensor | None  # (m, H, d_v); None where the keys are the values
    r: Tensor | None  # (H, d), the readout of a pair
    key: Tensor | None  # (E, H, d), what an edge adds to its key or multiplies it with
    value: Tensor | None  # (E, H, d_v), what an edge adds to its value
    graph: list[Tensor]  # start, source, edge
    seed: Tensor | None  # of dropout
    kind: int  # 0 GAT, 1 a pair with a readout, 2 a dot
    act: int  # of a pair: 0 leaky ReLU, 1 tanh
    join: int  # of edge and key: 0 none, 1 sum, 2 product, 3 the same sum for the value
    scale: float
    slope: float
    dropout: float
    item: int  # of the batch
    align: str


TABLES = leading_tensors(EdgeArguments)  # those that receive a gradient


def _launched(given: EdgeArguments) -> tuple[Any, ...]:
    """As `replayed_calls.run` takes them: the work lists of the graph first."""
    return *_graph(given.graph, given.b.shape[0]), *given[:TABLES], given.seed, *given[TABLES + 2 : -1]


@operator("edges_triton")
@takes(EdgeArguments, bias=float, top=int)
def edges_op(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """out (n, H, d_v); for the backward tau (n, H) of a softmax, else the weights (E, H); ids (n, H, k) of top-k.

    bias: of a sigmoid, NaN for -log of the number of neighbours; top: k of top-k.
    """
    from .replayed_calls import run

    given, (bias, top) = EdgeArguments(*arguments[:-2]), arguments[-2:]
    found: tuple[Tensor, Tensor, Tensor] = run(given.align, None if math.isnan(bias) else bias, top, *_launched(given))
    return found


@edges_op.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    given, top = EdgeArguments(*arguments[:-2]), arguments[-1]
    values, edges = given.b if given.v is None else given.v, given.graph[1].shape[0]
    n, heads = given.a.shape[0], given.a.shape[1]
    rows = n if given.align == "softmax" else edges
    return (
        values.new_empty((n, heads, values.shape[2])),
        values.new_empty((rows, heads), dtype=torch.float32),
        values.new_empty((n, heads, torch.sym_min(top, edges)), dtype=torch.int32),
    )


@operator("edges_triton_backward")
@takes(EdgeArguments, out=Tensor, state=Tensor, dout=Tensor)
def backward_op(*arguments: Any) -> list[Tensor]:
    """Gradients of a, b, v, r, key and value; an empty tensor where there is none (v shared with b, no readout)."""
    from .replayed_calls import run_back

    given = EdgeArguments(*arguments[:-3])
    return list(run_back(given.align, *_launched(given), *arguments[-3:]))


@backward_op.register_fake
def _(*arguments: Any) -> list[Tensor]:
    def like(x: Tensor | None) -> Tensor:
        return arguments[0].new_empty(0, dtype=torch.float32) if x is None else x.new_empty(x.shape)

    return [like(x) for x in arguments[:TABLES]]


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
