"""Tensors without data to record: traced, transformed, fake. Checked before anything is read, so
that nothing of the recorder's enters a graph that torch is tracing.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.core.torch_private import PLAIN, FakeTensor, dispatches_itself, is_transformed, tracing

TRACED = "torch traces the model here (export, jit.trace, make_fx), and runs it elsewhere"


def unreadable(args: Iterable[Any], kwargs: "Mapping[str, Any] | None" = None) -> str | None:
    """Why the tensors of a call cannot be recorded; None where they can."""
    if tracing():
        return TRACED
    for x in args if not kwargs else (*args, *kwargs.values()):
        if isinstance(x, Tensor) and (reason := _of(x)) is not None:
            return reason
    return None


def _of(x: Tensor) -> str | None:
    if isinstance(x, FakeTensor):
        return "a fake tensor has no numbers"
    if is_transformed(x):
        return "inside a transform of torch.func (vmap, grad, jvp, ...), whose tensors end with it"
    if x.is_meta:
        return "a tensor on the meta device has no numbers"
    if x.layout == torch.jagged:
        return "a nested tensor of jagged layout"
    if type(x) not in PLAIN and dispatches_itself(type(x)):
        return f"a {type(x).__name__} answers torch's operators itself"
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return "inside the capture of a CUDA graph, which replays without Python"
    return None
