"""Tensors among the arguments of a call: where they stand, and the same call with another in one's place."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

Place = tuple[Any, ...]  # ("args", 0), ("kwargs", "input"), ("args", 1, 3) for the fourth of a list


def tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Place, Tensor]]:
    """Positional ones first; lists and tuples are looked into."""
    for place, x in enumerate(args):
        if isinstance(x, Tensor):
            yield (place,), x
        elif isinstance(x, (list, tuple)):
            for i, y in enumerate(x):
                if isinstance(y, Tensor):
                    yield (place, i), y
    for name, x in kwargs.items():
        if isinstance(x, Tensor):
            yield (name,), x
        elif isinstance(x, (list, tuple)):
            for i, y in enumerate(x):
                if isinstance(y, Tensor):
                    yield (name, i), y


def replaced(
    args: tuple[Any, ...], kwargs: dict[str, Any], others: dict[Place, Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with other tensors at some places."""
    listed, named = list(args), dict(kwargs)
    for place, x in others.items():
        room: Any = listed if isinstance(place[0], int) else named
        if len(place) == 1:
            room[place[0]] = x
        else:
            inner = list(room[place[0]])
            inner[place[1]] = x
            room[place[0]] = tuple(inner) if isinstance(room[place[0]], tuple) else inner
    return tuple(listed), named


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, *names: str, default: Any = None) -> Any:
    """By position (the first tensor is 0), or by one of its names."""
    for name in names:
        if name in kwargs:
            return kwargs[name]
    return args[place] if len(args) > place else default


def tensors_out(out: Any) -> list[Tensor]:
    """What a call returned, flat."""
    if isinstance(out, Tensor):
        return [out]
    return [x for x in out if isinstance(x, Tensor)] if isinstance(out, (list, tuple)) else []


def with_tensor(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], place: Place, x: Tensor
) -> Any:
    """What the call gives with another tensor at one place."""
    listed, named = replaced(args, kwargs, {place: x})
    return func(*listed, **named)
