"""The errors Regard raises: each names the argument, what was given, what was expected and the next step."""

import os
import sys

import torch
from torch import Tensor

from .torch_private import FakeTensor


class Refused(RuntimeError):
    """A backend refuses a call. The message lists every reason as a sentence."""


def within(i: int, size: int, who: str, what: str) -> int:
    """An index from the start, of one that may be negative (-1 is the last)."""
    if not -size <= i < size:
        expected = f"expected {-size} to {size - 1}" if size else "there is none to choose"
        raise IndexError(f"{who}: there are {size} {what}, {expected}.")
    return i % size


def lacking(what: str, package: str, extra: str) -> ModuleNotFoundError:
    """The error for an optional package that is missing or fails to import; raise it from the ImportError."""
    reason = sys.exc_info()[1]
    while reason is not None and (reason.__cause__ or reason.__context__) is not None:
        reason = reason.__cause__ or reason.__context__
    absent = reason.name if isinstance(reason, ModuleNotFoundError) else None
    if reason is None or (absent is not None and absent.partition(".")[0] == package.partition(" ")[0]):
        text = f"which is not installed: pip install 'regard[{extra}]'."
    elif absent is not None:
        text = f"which needs {absent}, which is not installed: pip install 'regard[{extra}]'."
    else:
        text = f"which is installed but does not import: {type(reason).__name__}: {reason}"
        if "torchvision::" in text:
            text += ". torchvision was built for another torch: install both from the same index, in one command."
    return ModuleNotFoundError(f"{what} needs {package}, {text}", name=package)


def as_tensor_hint(name: str, given: object) -> str:
    """'; write torch.from_numpy(x)' of an array, torch.tensor(x) of a list (pairs are transposed); else ""."""
    if type(given).__module__ == "numpy":
        return f"; write torch.from_numpy({name})"
    if isinstance(given, (list, tuple)) and given:
        pairs = len(given) != 2 and all(isinstance(one, (list, tuple)) and len(one) == 2 for one in given)
        return f"; write torch.tensor({name}){'.T' if pairs else ''}"
    return ""


def values_are_checked(tensor: Tensor) -> bool:
    """Whether values (not only shapes) are checked: always in eager mode on a CPU, elsewhere with REGARD_CHECK=1.

    Reading a value on a GPU synchronises; while compiling it breaks the graph.
    """
    if torch.compiler.is_compiling() or isinstance(tensor, FakeTensor):
        return False
    return tensor.device.type == "cpu" or os.environ.get("REGARD_CHECK") == "1"


def check_built(owner: object, name: str, x: Tensor, width: int, heads: int = 1) -> None:
    """Checks that x (B, H, n, d) has the width and the number of heads of the owner's parameters."""
    if x.shape[-1] != width:
        raise ValueError(
            f"{type(owner).__name__} was built for {name} of width {width}, but {name} has width "
            f"{x.shape[-1]}: build it for that width."
        )
    check_heads(owner, heads, x.shape[1])


def check_heads(owner: object, built: int, heads: int) -> None:
    if built != 1 and built != heads:  # not `in`: heads may be symbolic while a graph is traced
        raise ValueError(
            f"{type(owner).__name__} was built with heads={built}, but q has {heads} heads: build it with "
            f"heads={heads}, or with heads=1 to share its parameters."
        )


def check_scores(owner: object, s: object, q: Tensor, k: Tensor, features: int | None) -> None:
    """Checks the shape that a user-defined score returned for q (..., H, n, d_q), k (..., H, m, d_k)."""
    expected = (*q.shape[:-2], *(() if features is None else (features,)), q.shape[-2], k.shape[-2])
    if not isinstance(s, Tensor) or tuple(s.shape) != expected:
        given = tuple(s.shape) if isinstance(s, Tensor) else type(s).__name__
        axes = "(..., heads, n, m)" if features is None else "(..., heads, features, n, m)"
        raise ValueError(
            f"{type(owner).__name__}.forward(q, k) returned {given}, expected {expected} = {axes} for q "
            f"{tuple(q.shape)} and k {tuple(k.shape)}. A feature-wise score gives the number of features in "
            "`features`."
        )
