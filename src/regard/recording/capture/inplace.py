"""Functions that write into a tensor they were given: which one, and what else lies in its memory."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from regard.core.torch_private import FakeTensor

OPERATORS = frozenset(
    f"__i{name}__"
    for name in (
        "add",
        "sub",
        "mul",
        "matmul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
    )
)


def written_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The tensor that this call changes: x of x.mul_(y), x *= y, x[i] = y, f(y, out=x) and f(x, inplace=True)."""
    out = kwargs.get("out")
    if isinstance(out, Tensor):
        return out
    named = kwargs.get("inplace", args[3] if func is torch.nn.functional.dropout and len(args) > 3 else False)
    if (named is True or writes(func)) and args and isinstance(args[0], Tensor):
        return args[0]
    return None


@lru_cache(maxsize=4096)
def writes(func: Any) -> bool:
    """Whether it changes its first argument, by its name: mul_, __imul__, __setitem__."""
    name = str(getattr(func, "__name__", "")).partition(".")[0]
    return (name.endswith("_") and not name.endswith("__")) or name in OPERATORS or name == "__setitem__"


def memory(x: Tensor) -> int | None:
    """Where it lies: tensors of one number may be views of one another; None where it has no memory of its own."""
    if x.layout != torch.strided or x.is_nested or isinstance(x, FakeTensor):
        return None
    try:
        return x.untyped_storage().data_ptr() or None  # 0 of a meta tensor and of an empty one
    except (RuntimeError, NotImplementedError):
        return None


def version(x: Tensor) -> int:
    """How often it was changed in place; 0 where torch does not count, in inference mode."""
    return 0 if x.is_inference() else x._version
