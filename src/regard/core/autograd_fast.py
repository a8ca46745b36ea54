"""Functions with gradients of their own, called for less than they compute."""

from typing import Any

import torch
from torch.autograd import Function

PLAIN = {torch.Tensor, torch.nn.Parameter}  # tensors that nobody watches from within
transformed = torch._C._functorch.peek_interpreter_stack  # vmap and its like stand above autograd


def applied(function: type[Function], *given: Any) -> Any:
    """function.apply(*given).

    apply looks for transforms in every argument and reads the signature of a forward that has no context: some fifty
    microseconds, longer than a small problem takes. Where nobody transforms or traces there is nothing to find.
    """
    if transformed() is not None or torch.compiler.is_compiling():
        return function.apply(*given)
    return super(Function, function).apply(*given)  # type: ignore[misc]
