"""Triton edges: softmax attention over a graph on a GPU, for GAT, GATv2 and dot-product scores, forward and backward.

The operators are registered here without importing Triton; kernels are in `triton_edges_kernels`, launches in
`triton_edges_launch`. The work lists of a graph are made once and remembered for as long as its tensors live.
"""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from ..core.alignments import Softmax
from ..core.cores import Dot, Pair
from ..core.edges import Neighbours
from ..core.errors import Refused
from ..core.plan import Plan
from ..core.registry import Ran
from ..core.remember import remembered
from ..core.scores import GATv2

HAS_TRITON = find_spec("triton") is not None
WIDEST = 1024  # heads x width that one program holds in registers


class TritonEdges:
    name = "triton-edges"

    def refusals(self, plan: Plan) -> list[str]:
        if not isinstance(plan.over, Neighbours):
            return ["It runs over Edges alone."]
        if plan.q.device.type != "cuda":
            return ["It runs on a CUDA device."]
        why = []
        if not HAS_TRITON:
            why.append("Triton is not installed.")
        if type(plan.align) is not Softmax or plan.factor is not None:
            why.append(f"It has one alignment, softmax; this is {type(plan.align).__name__}.")
        if plan.q.dtype == torch.float64:
            why.append("Its sums are in fp32.")
        if plan.edge_key is not None or plan.edge_value is not None:
            why.append("Edges with a key or a value of their own run on 'chunked'.")
        if why:
            return why
        score = plan.problem.score
        if _kind(score.core) is None:
            why.append(f"It scores by GAT, GATv2 or a dot product; this is {score.core}.")
        if score.modifiers or score.sink is not None or score.key_bias is not None or score.row_bias is not None:
            why.append("It has no modifiers, sinks or biases.")
        if plan.heads * max(plan.v.shape[-1], score.core.a.shape[-1]) > WIDEST:
            why.append(f"A program holds all heads of a row, up to {WIDEST} numbers.")
        return why

    def passes(self, plan: Plan) -> bool:
        return False

    def run(self, plan: Plan) -> Ran:
        problem, graph = plan.problem, plan.over
        assert isinstance(graph, Neighbours)
        core = problem.score.core
        assert isinstance(core, (Dot, Pair))
        kind = _kind(core)
        assert kind is not None
        scale = core.scale if isinstance(core, Dot) else 1.0
        slope = core.slope if isinstance(core, Pair) and core.act == "leaky_relu" else 0.0
        shared = isinstance(plan.score, GATv2) and plan.k is plan.v
        value = plan.v_by_head
        outs = []
        for item in range(plan.batch):  # one graph for the whole batch
            part = slice(item * plan.heads, (item + 1) * plan.heads)
            a, b = _node_major(core.a[part]), _node_major(core.b[part])
            v = None if shared else _node_major(value[item])
            r = _readout(core, part, kind)
            seed = problem.seed if problem.dropout else None
            outs.append(
                edges_op(
                    a, b, v, r, graph.start, graph.source, graph.edge, seed, kind, scale, slope, problem.dropout, item
                )
            )
        out = torch.stack([o.transpose(0, 1) for o, _ in outs]) if len(outs) > 1 else outs[0][0].transpose(0, 1)[None]
        return Ran(out)


def _kind(core: object) -> int | None:
    """0 GAT, 1 pair with a readout, 2 dot."""
    if isinstance(core, Dot):
        return 2
    if isinstance(core, Pair) and core.join == "add" and core.act in ("leaky_relu", "relu") and core.features is None:
        return 0 if isinstance(core.readout, float) and core.readout == 1.0 and core.a.shape[-1] == 1 else 1
    return None


def _readout(core: Dot | Pair, heads: slice, kind: int) -> Tensor | None:
    """(H, w) in fp32, for a pair."""
    if kind != 1 or not isinstance(core, Pair):
        return None
    if isinstance(core.readout, Tensor):
        return core.readout[heads].float().contiguous()
    assert core.readout is not None
    return torch.full((heads.stop - heads.start, core.a.shape[-1]), core.readout, device=core.a.device)


def _node_major(x: Tensor) -> Tensor:
    """(H, n, d) -> (n, H, d) with unit stride in d: a view where memory is node-major already."""
    x = x.transpose(0, 1)
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


def _both_ways(start: Tensor, source: Tensor, m: int) -> Any:
    from .triton_edges_launch import Graph

    return remembered((start, source), ("triton-edges", m), lambda: Graph.of(start, source, m))


def _sizes(a: Tensor, b: Tensor, v: Tensor | None, kind: int) -> Any:
    from .triton_edges_launch import Shape

    return Shape(kind, a.shape[1], a.shape[2], (b if v is None else v).shape[2])


@torch.library.custom_op("regard::edges_triton", mutates_args=())
def edges_op(
    a: Tensor, b: Tensor, v: Tensor | None, r: Tensor | None, start: Tensor, source: Tensor, edge: Tensor,
    seed: Tensor | None, kind: int, scale: float, slope: float, dropout: float, item: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """out (n, H, d_v), tau (n, H). v is None where the keys are the values."""
    from .triton_edges_launch import forward

    graph = _both_ways(start, source, b.shape[0])
    return forward(_sizes(a, b, v, kind), graph, edge, a, b, b if v is None else v, r, scale, slope, dropout,
                   None if seed is None else seed + 1, v is None, item)  # fmt: skip


@edges_op.register_fake
def _(a: Tensor, b: Tensor, v: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    value = b if v is None else v
    shape = (a.shape[0], a.shape[1])
    return value.new_empty((*shape, value.shape[2])), value.new_empty(shape, dtype=torch.float32)


@torch.library.custom_op("regard::edges_triton_backward", mutates_args=())
def backward_op(
    a: Tensor, b: Tensor, v: Tensor | None, r: Tensor | None, start: Tensor, source: Tensor, edge: Tensor,
    seed: Tensor | None, out: Tensor, tau: Tensor, dout: Tensor, kind: int, scale: float, slope: float, dropout: float,
    item: int,
) -> list[Tensor]:  # fmt: skip
    """Gradients of a, b, v and r; an empty tensor where there is none (v shared with b, no readout)."""
    from .triton_edges_launch import backward

    graph = _both_ways(start, source, b.shape[0])
    dout = dout if dout.stride(-1) == 1 else dout.contiguous()
    da, db, dv, dr = backward(_sizes(a, b, v, kind), graph, edge, a, b, b if v is None else v, r, out, tau, dout, scale,
                              slope, dropout, None if seed is None else seed + 1, v is None, item)  # fmt: skip
    nothing = a.new_zeros(0)
    return [
        da,
        dv if v is None else db,
        nothing if v is None else dv,
        nothing if dr is None or r is None else dr.to(r.dtype),
    ]


@backward_op.register_fake
def _(a: Tensor, b: Tensor, v: Tensor | None, r: Tensor | None, *rest: Any) -> list[Tensor]:
    def like(x: Tensor | None) -> Tensor:
        return a.new_empty(0) if x is None else torch.empty(x.shape, dtype=x.dtype, device=x.device)

    return [like(a), like(b), like(v), like(r)]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    a, b, v, r, start, source, edge, seed, *ctx.numbers = inputs
    ctx.save_for_backward(a, b, v, r, start, source, edge, seed, *output)
    ctx.mark_non_differentiable(output[1])


def _autograd(ctx: Any, dout: Tensor, _: Any) -> tuple[Any, ...]:
    a, b, v, r, start, source, edge, seed, out, tau = ctx.saved_tensors
    da, db, dv, dr = backward_op(a, b, v, r, start, source, edge, seed, out, tau, dout, *ctx.numbers)
    return da, db, None if v is None else dv, None if r is None else dr, *(None,) * 9


edges_op.register_autograd(_autograd, setup_context=_setup)


def _no_second_derivative(ctx: Any, *grads: Any) -> Any:
    raise Refused('backend "triton-edges" has no second derivative: attend(..., backend="reference") has.')


backward_op.register_autograd(_no_second_derivative)
