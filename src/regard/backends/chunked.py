"""Chunked: any plan but the stepwise ones, forward and backward in O(n) memory, on a CPU or a GPU, in plain torch.

Rows are taken a block at a time; the backward computes each block again from the row state, so nothing of size n x m
is ever kept. One custom operator carries it through torch.compile and torch.export. A score or a modifier of the
user's own runs the same loops under torch's autograd, in eager mode.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..core import evaluate
from ..core.alignments import Hard, RowState
from ..core.blocks import Block, Problem, blocks
from ..core.cores import Grads, Opaque
from ..core.edges import neighbours_of
from ..core.errors import Refused
from ..core.plan import Plan
from ..core.registry import Ran
from ..core.spec import Parts, decode, encode, transform
from .operator import no_second_derivative, operator

SMALL = 1 << 19  # pairs times width under which the reference is faster: it starts in half the time


def few(plan: Plan) -> bool:
    """Few pairs: the reference is one pass of a few operators. While compiling, sizes must not decide."""
    if torch.compiler.is_compiling():
        return False
    return plan.batch * plan.heads * plan.n * plan.m * plan.q.shape[-1] <= SMALL


class Chunked:
    name = "chunked"

    def refusals(self, plan: Plan) -> list[str]:
        if plan.score.stepwise or plan.align.stepwise:
            return ["It runs blocks of rows in any order; this mechanism needs each row before the next."]
        if not plan.align.remembers:
            return ["This alignment defines forward alone and keeps no row state, which running in blocks needs."]
        compiling = torch.compiler.is_compiling()
        if not compiling and any(torch._C._functorch.is_functorch_wrapped_tensor(x) for x in (plan.q, plan.k, plan.v)):
            return [_NO_FUNC]
        if not plan.problem.score.closed:
            if compiling:
                return [
                    "A score or modifier of your own runs here in eager mode only; compiled, it runs on 'reference'."
                ]
            if plan.score.positional:
                return ["This score depends on where a key stands and cannot be called on slices."]
        return []

    def passes(self, plan: Plan) -> bool:
        return few(plan)

    def run(self, plan: Plan) -> Ran:
        problem, v = plan.problem, plan.v_by_head.flatten(0, 1)
        if problem.score.closed:
            parts = Parts([v], [], [])
            text = encode(problem, parts)
            results = forward_op(parts.tensors, text, parts.ints, parts.floats)
            out, tau, index, scale, log_prob, entropy = results
        else:
            out, tau, index, scale, log_prob, entropy = _OwnScore.apply(problem, v, *_leaves(problem))
        shape = (plan.batch, plan.heads)
        state = RowState(tau, index if problem.align.chooses else None, scale if scale.ndim == tau.ndim else None)
        if not isinstance(problem.align, Hard) or problem.score.features is not None:
            return Ran(out.unflatten(0, shape), state)
        drawn = {"log_prob": log_prob.unflatten(0, shape), "entropy": entropy.unflatten(0, shape)}
        return Ran(out.unflatten(0, shape), state, **drawn)


_NO_FUNC = 'It does not run under vmap and the other transforms of torch.func: backend="reference" does.'
Results = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _forward(problem: Problem, v: Tensor) -> Results:
    """out (g, n, d_v), tau (g, [F,] n), index, scale, and for a hard choice its log-probability and entropy (g, n)."""
    dtype = v.dtype
    problem, v = problem.in_full_precision(), _full(v)
    out, tau, index, scale, log_prob, entropy = _empty_results(problem, v)
    draws = log_prob.numel() > 0
    for block in blocks(problem):
        s = evaluate.scores(problem, block)
        state = evaluate.row_state(problem, block, s)
        w, full, _ = evaluate.whole_weights(problem, block, s, state)
        evaluate.put(tau, block, state.tau)
        if state.index is not None:
            deep = state.index.shape[state.tau.ndim :]
            evaluate.put(index[..., : deep[0]] if deep else index, block, state.index, extra=len(deep))
        if state.scale is not None:
            evaluate.put(scale, block, state.scale)
        if draws:
            log_p = _log_prob(full, state)
            evaluate.put(log_prob, block, torch.where(w > 0, log_p, 0.0).sum(-1))
            evaluate.put(entropy, block, -_p_log_p(log_p).sum(-1))
        out_view = out[block.slab]
        out_view[:, block.rows] = evaluate.average(
            problem, block, evaluate.scaled(problem, block, w[..., : s.shape[-1]]), v
        )
    return out.to(dtype), tau, index, scale, log_prob, entropy


def _empty_results(problem: Problem, v: Tensor) -> Results:
    g, n, features, like = problem.g, problem.n, problem.score.features, _full(v)
    shape = (g, n) if features is None else (g, features, n)
    out = like.new_zeros((g, n, v.shape[-1]))
    tau = like.new_full(shape, float("inf"))
    graph, k = neighbours_of(problem.structure), getattr(problem.align, "k", None)
    columns = problem.m if graph is None else graph.source.shape[0]  # edges may repeat, so a row may have more than m
    columns += problem.score.sink is not None
    index = torch.full(
        shape if k is None else (*shape, torch.sym_min(k, columns)), -1, dtype=torch.int32, device=v.device
    )
    draws = isinstance(problem.align, Hard) and features is None
    return (
        out,
        tau,
        index if problem.align.chooses else index.new_zeros(0),
        like.new_ones(shape) if problem.align.scales else like.new_zeros(0),
        like.new_zeros((g, n)) if draws else like.new_zeros(0),
        like.new_zeros((g, n)) if draws else like.new_zeros(0),
    )


def _backward(
    problem: Problem, v: Tensor, state: RowState, dout: Tensor, dtau: Tensor | None, dlog: Tensor | None,
    dentropy: Tensor | None, targets: list[Tensor],
) -> list[Tensor | None]:  # fmt: skip
    """Gradients of the targets (tensors of the problem, and v), block by block."""
    grads = Grads()
    features = problem.score.features
    for block in blocks(problem):
        trail: list[Tensor] = []
        s = evaluate.scores(problem, block, trail)
        part = evaluate.pick(state, block.slab, block.rows)
        w_full, full, seen = evaluate.whole_weights(problem, block, s, part)
        w = w_full[..., : s.shape[-1]]
        dw = evaluate.average_vjp(
            problem, block, evaluate.scaled(problem, block, w), v, dout[block.slab][:, block.rows], grads
        )
        mask = evaluate.dropped(problem, block)
        dw = dw if mask is None else dw * mask
        bell = evaluate.factor(problem, block)
        if bell is not None:
            assert problem.factor is not None
            dbell, plain = dw * w, bell if features is None else bell[:, 0]
            dbell = dbell if features is None else dbell.sum(1)
            dcentre = problem.factor.centre_gradient(block.tile, plain, dbell)
            view = grads.of(problem.factor.centre)[block.slab]
            view[:, block.rows] += dcentre
            dw = dw * bell
        if not problem.align.uses_scores:
            continue
        ds = problem.align.vjp(full, w_full, _beside_sink(dw, problem), part, grads, seen)
        ds = _statistics_vjp(problem, block, full, part, w_full, ds, dtau, dlog, dentropy)
        if problem.score.sink is not None:
            total = ds[..., -1].flatten(1).sum(1)
            grads.of(problem.score.sink)[block.slab] += total
            ds = ds[..., :-1]
        evaluate.scores_vjp(problem, block, trail, ds, grads)
    return [grads.get(target) for target in targets]


def _beside_sink(dw: Tensor, problem: Problem) -> Tensor:
    return dw if problem.score.sink is None else torch.nn.functional.pad(dw, (0, 1))


def _statistics_vjp(
    problem: Problem, block: Block, s: Tensor, state: RowState, w: Tensor, ds: Tensor,
    dtau: Tensor | None, dlog: Tensor | None, dentropy: Tensor | None,
) -> Tensor:  # fmt: skip
    """What the row statistics add: d tau = sum p ds, d log p_c = ds_c - sum p ds, d H = -sum p (log p + H) ds."""
    log_p = None
    for extra, kind in ((dtau, "tau"), (dlog, "log"), (dentropy, "entropy")):
        if extra is None or extra.numel() == 0:
            continue
        log_p = _log_prob(s, state) if log_p is None else log_p
        p = log_p.exp()
        g = evaluate.pick(RowState(extra), block.slab, block.rows).tau[..., None]
        if kind == "tau":
            ds = ds + g * p
        elif kind == "log":
            ds = ds + g * (w * (state.tau < float("inf"))[..., None] - p)
        else:
            terms = _p_log_p(log_p)
            ds = ds - g * (terms - p * terms.sum(-1, keepdim=True))
    return ds


def _log_prob(s: Tensor, state: RowState) -> Tensor:
    return s - state.tau[..., None]


def _p_log_p(log_p: Tensor) -> Tensor:
    return torch.where(log_p > float("-inf"), log_p.exp() * log_p, 0.0)


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


@operator("chunked")
def forward_op(tensors: list[Tensor], text: str, ints: list[int], floats: list[float]) -> Results:
    """tensors[0] are the values (g, m, d_v), the rest belongs to the problem that `text` describes."""
    with torch.autocast(tensors[0].device.type, enabled=False):
        return _forward(decode(text, Parts(tensors, ints, floats)), tensors[0])


@forward_op.register_fake
def _(tensors: list[Tensor], text: str, ints: list[int], floats: list[float]) -> Results:
    problem, v = decode(text, Parts(tensors, ints, floats)), tensors[0]
    out, *rest = _empty_results(problem, v)
    return (v.new_empty(out.shape), *rest)  # type: ignore[return-value]


@operator("chunked_backward")
def backward_op(
    tensors: list[Tensor], text: str, ints: list[int], floats: list[float], tau: Tensor, index: Tensor, scale: Tensor,
    dout: Tensor, dtau: Tensor | None, dlog: Tensor | None, dentropy: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    with torch.autocast(tensors[0].device.type, enabled=False):
        full = [_full(x).view_as(x) if x.is_floating_point() else x for x in tensors]  # one object a position
        problem = decode(text, Parts(full, ints, floats))
        state = RowState(
            tau, index if index.numel() or problem.align.chooses else None, scale if scale.ndim == tau.ndim else None
        )
        found = _backward(problem, full[0], state, _full(dout), dtau, dlog, dentropy, full)
    return [
        (torch.zeros_like(x) if g is None else g.to(x.dtype)) if x.is_floating_point() else x.new_zeros(0)
        for x, g in zip(tensors, found, strict=True)
    ]


@backward_op.register_fake
def _(tensors: list[Tensor], text: str, *rest: Any) -> list[Tensor]:
    return [torch.empty_like(x) if x.is_floating_point() else x.new_empty(0) for x in tensors]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Results) -> None:
    tensors, ctx.text, ctx.ints, ctx.floats = inputs
    _, tau, index, scale, _, _ = output
    ctx.count = len(tensors)
    ctx.save_for_backward(*tensors, tau, index, scale)
    ctx.mark_non_differentiable(index, scale)
    ctx.set_materialize_grads(False)


def _autograd(ctx: Any, dout: Tensor | None, dtau: Tensor | None, _i: Any, _s: Any, dlog: Tensor | None,
              dentropy: Tensor | None) -> tuple[list[Tensor | None], None, None, None]:  # fmt: skip
    saved = ctx.saved_tensors
    tensors, (tau, index, scale) = list(saved[: ctx.count]), saved[ctx.count :]
    if dout is None:
        dout = tensors[0].new_zeros((tau.shape[0], tau.shape[-1], tensors[0].shape[-1]))
    found = backward_op(tensors, ctx.text, ctx.ints, ctx.floats, tau, index, scale, dout, dtau, dlog, dentropy)
    return [g if x.is_floating_point() else None for x, g in zip(tensors, found, strict=True)], None, None, None


forward_op.register_autograd(_autograd, setup_context=_setup)


backward_op.once_differentiable("chunked")


def _no_vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
    raise Refused(f'backend "chunked" refuses: {_NO_FUNC}')


forward_op.register_vmap(_no_vmap)
backward_op.register_vmap(_no_vmap)


def _leaves(problem: Problem) -> list[Tensor]:
    """Tensors with a gradient in a problem that holds a score or a modifier of the user's own, each once."""
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x)
        return x

    transform(problem, note)
    core = problem.score.core
    if isinstance(core, Opaque):
        found += [core.a, core.b, *([] if core.edge is None else [core.edge.x])]
    found += [p for module in _own_modules(problem) for p in module.parameters()]
    return list({id(x): x for x in found if x.is_floating_point()}.values())


def _own_modules(problem: Problem) -> list[nn.Module]:
    core = problem.score.core
    modifiers: list[nn.Module] = [m for m in problem.score.modifiers if not m.closed]
    return [core.score, *modifiers] if isinstance(core, Opaque) and isinstance(core.score, nn.Module) else modifiers


@contextmanager
def _as_they_were(modules: list[tuple[nn.Module, dict[str, Tensor]]]) -> Iterator[None]:
    """Modules with the parameters that the forward saw: torch.func.functional_call has taken them out by now."""
    with ExitStack() as stack:
        for module, seen in modules:
            if any(p is not seen[name] for name, p in module.named_parameters()):
                stack.enter_context(torch.nn.utils.stateless._reparametrize_module(module, seen))
        yield


class _OwnScore(torch.autograd.Function):
    """The same loops around a score of the user's own: each tile's gradient is taken by torch."""

    @staticmethod
    def forward(ctx: Any, problem: Problem, v: Tensor, *leaves: Tensor) -> Results:
        results = _forward(problem, v)
        ctx.problem, ctx.leaves = problem, leaves
        ctx.own = [(module, dict(module.named_parameters())) for module in _own_modules(problem)]
        ctx.save_for_backward(v, *leaves, *results[1:4])
        ctx.mark_non_differentiable(results[2], results[3])
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None, dtau: Tensor | None, _i: Any, _s: Any, dlog: Tensor | None,
                 dentropy: Tensor | None) -> tuple[Any, ...]:  # fmt: skip
        v, *leaves = ctx.saved_tensors[:-3]
        tau, index, scale = ctx.saved_tensors[-3:]
        dout = v.new_zeros((tau.shape[0], tau.shape[-1], v.shape[-1])) if dout is None else dout
        wide: dict[int, Tensor] = {}  # what each 16-bit tensor became, so that its gradient is found again

        def widen(x: Tensor) -> Tensor:
            return wide.setdefault(id(x), _full(x))

        with torch.no_grad(), _as_they_were(ctx.own):
            problem = transform(ctx.problem, widen)
            state = RowState(tau, index if problem.align.chooses else None, scale if scale.ndim == tau.ndim else None)
            targets = [widen(v), *(wide.get(id(x), x) for x in ctx.leaves)]
            found = _backward(problem, targets[0], state, _full(dout), dtau, dlog, dentropy, targets)
        sums = [None if g is None else g.to(x.dtype) for g, x in zip(found, [v, *leaves], strict=True)]
        return None, *(_once(sums, [dout, v, *leaves]) if torch.is_grad_enabled() else sums)


def _once(sums: list[Tensor | None], inputs: list[Tensor]) -> list[Tensor | None]:
    """The same gradients, which refuse to be differentiated again."""
    there = [g for g in sums if g is not None]
    made = iter(_Once.apply(len(there), *there, *inputs))
    return [None if g is None else next(made) for g in sums]


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.view_as(x) for x in tensors[:count])

    backward = staticmethod(no_second_derivative("chunked"))
