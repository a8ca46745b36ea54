"""Operators of our own: torch.compile and torch.export see each as one call, and calling one costs little.

torch.library.custom_op does the same for about 100 microseconds a call and 130 more for its gradient, which is longer
than a small problem takes. Here the schema is read off the function as there, but autograd is a plain Function.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.library import Library, infer_schema

from ..core import fast_path
from ..core.errors import Refused
from ..core.torch_private import any_tangent, apply_function, below_autograd, interpreter_stack, unobserved

_library = Library("regard", "FRAGMENT")


class Operator:
    """The operator regard::name. Arguments are given by position; lists of tensors may carry gradients."""

    def __init__(self, name: str, function: Callable[..., Any]):
        self.name, self.function = f"regard::{name}", function
        schema = infer_schema(function, mutates_args=())
        self.lists = "[]" in schema.split("->")[0]  # among the arguments
        _library.define(name + schema)
        _library.impl(name, function, "CompositeExplicitAutograd")
        self.call = getattr(torch.ops.regard, name).default
        self.entry: Callable[..., Any] | None = None  # what autograd runs

    def __call__(self, *arguments: Any) -> Any:
        """Eager calls go to the entry at once: the dispatcher, which asks it first, costs as much as all it does."""
        past_dispatcher = fast_path.enabled and self.entry is not None
        if not past_dispatcher or torch.compiler.is_compiling() or interpreter_stack() is not None:
            return self.call(*arguments)
        assert self.entry is not None
        return self.entry(*arguments)

    def register_fake(self, function: Callable[..., Any]) -> None:
        torch.library.register_fake(self.name, function, lib=_library)

    def register_vmap(self, function: Callable[..., Any]) -> None:
        torch.library.register_vmap(self.name, function, lib=_library)

    def register_autograd(
        self, backward: Callable[..., Any], setup_context: "Callable[[Any, Any, Any], None] | None" = None
    ) -> None:
        """backward(ctx, *gradients of the outputs) -> a gradient for each argument, a list for a list."""
        call, function, lists = self.call, self.function, self.lists

        class Differentiable(Function):
            @staticmethod
            def forward(ctx: Any, run: Callable[..., Any], lengths: list[int | None] | None, *flat: Any) -> Any:
                arguments = flat if lengths is None else _folded(lengths, flat)
                with below_autograd():
                    out = run(*arguments)
                if setup_context is not None:
                    setup_context(ctx, arguments, out)
                return tuple(out) if isinstance(out, list) else out

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                if not lists:
                    return None, None, *backward(ctx, *grads)
                flat: list[Any] = [None, None]
                for grad in backward(ctx, *grads):
                    flat += grad if isinstance(grad, list) else [grad]
                return tuple(flat)

        def entry(*arguments: Any) -> Any:
            lengths, flat = _unfolded(arguments) if lists else (None, arguments)
            tensors = [x for x in flat if isinstance(x, Tensor)]
            if any_tangent(tensors):  # of a score's parameters too: it would be lost
                raise Refused(f'{self.name} has no forward-mode derivative: attend(..., backend="reference") has.')
            run = function if fast_path.enabled and unobserved(tensors) else call
            if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
                return apply_function(Differentiable, run, lengths, *flat)
            with below_autograd():
                return run(*arguments)

        self.entry = entry
        _library.impl(self.name.removeprefix("regard::"), entry, "Autograd")

    def once_differentiable(self, backend: str) -> None:
        """For the operator of a gradient: asked for its own gradient, it says which backend has one."""
        self.register_autograd(no_second_derivative(backend))


def gradients(ctx: Any, backward: Operator, count: int, dout: Tensor) -> tuple[tuple[Any, ...], Sequence[Tensor]]:
    """The tensors that a forward saved, and backward(the first `count` of them, ctx.numbers, the rest of them, dout).

    Where the forward was replayed from a tape (LaunchReplay), replays the backward too, skipping the key look-up.
    """
    saved, tape = ctx.saved_tensors, ctx.tape
    tensors = [x for x in (*saved, dout) if x is not None]
    replays = fast_path.enabled and tape is not None and not torch.is_grad_enabled() and unobserved(tensors)
    grads = tape.replay_backward(tensors) if replays else None
    if grads is None:
        arguments = (*saved[:count], *ctx.numbers, *saved[count:], dout)
        grads = backward(*arguments)
        if replays:
            tape.link_backward(arguments)
    return saved, grads


def no_second_derivative(backend: str) -> Callable[..., Any]:
    def refuse(ctx: Any, *grads: Any) -> Any:
        raise Refused(f'backend "{backend}" has no second derivative: attend(..., backend="reference") has.')

    return refuse


def operator(name: str) -> Callable[[Callable[..., Any]], Operator]:
    """@operator("name") over a function whose annotations are its schema."""
    return lambda function: Operator(name, function)


def _unfolded(arguments: tuple[Any, ...]) -> tuple[list[int | None], list[Any]]:
    lengths: list[int | None] = []
    flat: list[Any] = []
    for x in arguments:
        many = isinstance(x, (list, tuple)) and len(x) > 0 and isinstance(x[0], Tensor)
        lengths.append(len(x) if many else None)
        flat += x if many else [x]
    return lengths, flat


def _folded(lengths: list[int | None], flat: tuple[Any, ...]) -> tuple[Any, ...]:
    arguments, at = [], 0
    for length in lengths:
        arguments.append(flat[at] if length is None else list(flat[at : at + length]))
        at += 1 if length is None else length
    return tuple(arguments)
