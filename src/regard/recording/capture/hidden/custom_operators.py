"""Operators that were written in Python, by torch.library.custom_op: what they run is seen like a model's own code.

Torch calls an operator's function below the modes of Python, which see the operator alone then.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from regard.core.torch_private import OPERATORS, custom_operators


def custom_operator(func: Any) -> Any:
    """What torch.library.custom_op made of this operator; None of any other. Ours are read by a reader of their own."""
    if not isinstance(func, OPERATORS):
        return None
    name = str(getattr(func, "_qualified_op_name", None) or func.name()).partition(".")[0]
    return None if name.startswith("regard::") else custom_operators.get(name)


@contextmanager
def visible(operator: Any, mode: AbstractContextManager[Any], here: Callable[[], bool]) -> Iterator[None]:
    """In this block the operator's function runs under a mode, in the thread that has it (here())."""
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
