"""Operators written in Python with torch.library.custom_op: their bodies are traced like a model's own code.

Torch calls an operator's function below the modes of Python, which see the operator alone then.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from regard.core.torch_private import OPERATORS, custom_operators


def custom_operator(func: Any) -> Any:
    """The definition made by torch.library.custom_op; None for other operators and for ours, which have a reader."""
    if not isinstance(func, OPERATORS):
        return None
    name = str(getattr(func, "_qualified_op_name", None) or func.name()).partition(".")[0]
    return None if name.startswith("regard::") else custom_operators.get(name)


@contextmanager
def visible(operator: Any, mode: AbstractContextManager[Any], here: Callable[[], bool]) -> Iterator[None]:
    """In this block the operator's body runs under the mode, in the mode's own thread (here())."""
    own = dict(operator._backend_fns)
    operator._backend_fns.update({device: partial(_under, mode, here, function) for device, function in own.items()})
    try:
        yield
    finally:
        operator._backend_fns.clear()
        operator._backend_fns.update(own)


def _under(
    mode: AbstractContextManager[Any], here: Callable[[], bool], function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    if not here():
        return function(*args, **kwargs)
    with mode:
        return function(*args, **kwargs)
