"""A score or a modifier of the user's own, run by chunked's passes: each block's gradient is taken by torch."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.alignments import RowState
from regard.core.lowering.blocks import Problem
from regard.core.lowering.score_kernels import OpaqueCore
from regard.core.lowering.serialization import transform
from regard.core.torch_private import reparametrized

from ..custom_op import no_second_derivative
from .passes import Results, backward_pass, forward_pass, full_precision


def leaves_of(problem: Problem) -> list[Tensor]:
    """Tensors with a gradient in a problem that holds a score or a modifier of the user's own, each once."""
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x)
        return x

    transform(problem, note)
    core = problem.score.core
    if isinstance(core, OpaqueCore):
        found += [core.a, core.b, *([] if core.edge is None else [core.edge.x])]
    found += [p for module in _user_modules(problem) for p in module.parameters()]
    return list({id(x): x for x in found if x.is_floating_point()}.values())


def _user_modules(problem: Problem) -> list[nn.Module]:
    core = problem.score.core
    modifiers: list[nn.Module] = [m for m in problem.score.modifiers if not m.closed]
    return [core.score, *modifiers] if isinstance(core, OpaqueCore) and isinstance(core.score, nn.Module) else modifiers


@contextmanager
def _with_forward_parameters(modules: list[tuple[nn.Module, dict[str, Tensor]]]) -> Iterator[None]:
    """Modules with the parameters that the forward saw: torch.func.functional_call has taken them out by now."""
    with ExitStack() as stack:
        for module, parameters in modules:
            if any(p is not parameters[name] for name, p in module.named_parameters()):
                stack.enter_context(reparametrized(module, parameters))
        yield


class UserScore(torch.autograd.Function):
    """The same passes around a score of the user's own: each block's gradient is taken by torch."""

    @staticmethod
    def forward(ctx: Any, problem: Problem, v: Tensor, *leaves: Tensor) -> Results:
        results = forward_pass(problem, v)
        ctx.problem, ctx.leaves = problem, leaves
        ctx.own = [(module, dict(module.named_parameters())) for module in _user_modules(problem)]
        ctx.save_for_backward(v, *leaves, *results[1:4])
        ctx.mark_non_differentiable(results[2], results[3])
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(
        ctx: Any,
        dout: Tensor | None,
        dtau: Tensor | None,
        _i: Any,
        _s: Any,
        dlog: Tensor | None,
        dentropy: Tensor | None,
    ) -> tuple[Any, ...]:
        v, *leaves = ctx.saved_tensors[:-3]
        tau, index, scale = ctx.saved_tensors[-3:]
        dout = v.new_zeros((tau.shape[0], tau.shape[-1], v.shape[-1])) if dout is None else dout
        wide: dict[int, Tensor] = {}  # what each 16-bit tensor became, so that its gradient can be looked up

        def widen(x: Tensor) -> Tensor:
            return wide.setdefault(id(x), full_precision(x))

        with torch.no_grad(), _with_forward_parameters(ctx.own):
            problem = transform(ctx.problem, widen)
            state = RowState(tau, index if problem.align.chooses else None, scale if scale.ndim == tau.ndim else None)
            targets = [widen(v), *(wide.get(id(x), x) for x in ctx.leaves)]
            found = backward_pass(problem, targets[0], state, full_precision(dout), dtau, dlog, dentropy, targets)
        sums = [None if g is None else g.to(x.dtype) for g, x in zip(found, [v, *leaves], strict=True)]
        return None, *(_without_second_derivative(sums, [dout, v, *leaves]) if torch.is_grad_enabled() else sums)


def _without_second_derivative(sums: list[Tensor | None], inputs: list[Tensor]) -> list[Tensor | None]:
    """The same gradients, which refuse to be differentiated again."""
    there = [g for g in sums if g is not None]
    made = iter(_FirstOrderOnly.apply(len(there), *there, *inputs))
    return [None if g is None else next(made) for g in sums]


class _FirstOrderOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.view_as(x) for x in tensors[:count])

    backward = staticmethod(no_second_derivative("chunked"))
