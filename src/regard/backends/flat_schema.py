"""The flat schema of an operator whose arguments are described once, as the fields of a NamedTuple.

An operator of torch takes tensors and numbers by position, and exported programs hold their names and order. A call has
the same things as one record. The fields are the schema: a forward, its fake kernel, its backward and its launch take
`*arguments` and make the record where they read it.
"""

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from torch import Tensor


def takes(fields: type[tuple[Any, ...]], *but: str, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """@takes(Fields, out=Tensor) over a function of *arguments: its signature is the fields', `but` some, then more."""
    named = {name: kind for name, kind in get_type_hints(fields).items() if name not in but} | more

    def described(function: Callable[..., Any]) -> Callable[..., Any]:
        one = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, one, annotation=kind) for name, kind in named.items()]
        returns = inspect.signature(function).return_annotation
        function.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
        return function

    return described


def leading_tensors(fields: type[tuple[Any, ...]]) -> int:
    """How many of the fields, from the first on, are tensors: what autograd saves."""
    kinds = list(get_type_hints(fields).values())
    return next((place for place, kind in enumerate(kinds) if kind not in (Tensor, Tensor | None)), len(kinds))
