"""Validation of arguments that are numbers, sizes or switches; each error is one sentence.

Numbers must be finite with a square that fits fp32: beyond that scores overflow, and rows of weights are NaN.
"""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, overload

import torch
from torch import Tensor

P = ParamSpec("P")
LARGEST, SMALLEST = 1e18, 1e-18
SCORE = "str | Score"
NAME_OR_OBJECT = {
    SCORE: "a Score",
    f"{SCORE} | Callable[[int, int], Score]": "a Score",
    "str | Alignment": "an Alignment",
}  # annotations of arguments that are a name or an object
MOST = 2**31 - 1  # largest count: kernels use 32-bit indices


def shown(value: Any) -> str:
    """A value formatted for an error message."""
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def is_whole(value: Any) -> bool:
    """An integer of Python or numpy, or a traced size; a bool is not one."""
    return isinstance(value, (Integral, torch.SymInt)) and not isinstance(value, bool)


def whole(value: Any, who: str, name: str, least: int = 1, most: int = MOST) -> int:
    """A whole number between two bounds."""
    if isinstance(value, torch.SymInt):  # a size that is traced
        return value  # type: ignore[return-value]
    if not is_whole(value) or not least <= value <= most:
        bounds = f"{least} to {most}" if is_whole(value) and value > most else f"{least} or more"
        raise ValueError(f"{who}({name}={shown(value)}): expected a whole number, {bounds}.")
    return int(value)


def sizes(who: str, **given: Any) -> "list[int | None]":
    """Whole numbers of 1 or more, by their names; None stays what it is."""
    return [None if value is None else whole(value, who, name) for name, value in given.items()]


def number(value: Any, who: str, name: str, least: float = -LARGEST, most: float = LARGEST, hint: str = "") -> float:
    """A finite number between two bounds."""
    if isinstance(value, torch.SymFloat):
        return value  # type: ignore[return-value]
    counts = isinstance(value, Real) and not isinstance(value, bool)
    if not counts or not least <= value <= most:  # also refuses NaN
        kind = "a positive number" if least > 0 else "a number"
        if least == 0:
            bounds = f"0 or more, up to {most:g}"
        else:
            bounds = f"from {least:g} to {most:g}"
        raise ValueError(f"{who}({name}={shown(value)}): expected {kind}, {bounds}{hint}.")
    return float(value)


def flag(value: Any, who: str, name: str) -> bool:
    """A bool; other truthy values are refused."""
    if value is not True and value is not False:
        raise TypeError(f"{who}({name}={shown(value)}): expected True or False.")
    return bool(value)


def probability(value: Any, who: str, name: str) -> float:
    """A dropout probability: 0 <= p < 1."""
    counts = isinstance(value, (Real, torch.SymFloat)) and not isinstance(value, bool)
    if not counts or not 0.0 <= value < 1.0:
        raise ValueError(f"{who}({name}={shown(value)}): expected a probability, 0 <= {name} < 1.")
    return float(value)


@overload
def checked(init: Callable[P, None], /) -> Callable[P, None]: ...


@overload
def checked(**least: int) -> Callable[[Callable[P, None]], Callable[P, None]]: ...


def checked(init: Any = None, /, **least: int) -> Any:
    """Decorator: checks the bools, counts and numbers of a constructor by its annotations.

        @checked                                     bool, int (1 or more), float, and each of them with | None
        @checked(start=0)                            start is a count that may be 0

    A `dropout` is a probability. in_channels may be -1, taken from the first input, or a pair where it is annotated so.
    The counts stay in `sizes`, by name.
    """
    if init is None:
        return lambda init: _checked(init, least)
    return _checked(init, least)


def _checked(init: Callable[..., None], least: dict[str, int]) -> Callable[..., None]:
    parameters = inspect.signature(init).parameters
    names = list(parameters)[1:]
    kinds = {name: kind_of(parameter.annotation) for name, parameter in parameters.items()}

    @wraps(init)
    def checking(self: Any, *args: Any, **options: Any) -> None:
        given = dict(zip(names, args, strict=False)) | options
        for name, value in given.items():
            if name in kinds:
                _check(value, type(self).__name__, name, kinds[name], least.get(name))
        init(self, *args, **options)
        whole = {name: parameters[name].default for name in names if kinds[name].startswith("int")} | given
        self.__dict__["sizes"] = {name: size for name, size in whole.items() if is_whole(size)}

    return checking


def kind_of(annotation: Any) -> str:
    """An annotation as it is written."""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else re.sub(r"\w+\.", "", str(annotation))


def _check(value: Any, who: str, name: str, kind: str, least: int | None) -> None:
    if kind.endswith(" | None"):
        if value is None:
            return
        kind = kind.removesuffix(" | None")
    if kind == "bool":
        flag(value, who, name)
    elif kind == "float" and "dropout" in name:
        probability(value, who, name)
    elif kind == "float":
        number(value, who, name)
    elif name in ("in_channels", "edge_dim") and least is None and kind in ("int", "int | tuple[int, int]"):
        widths(value, who, name, pair=kind != "int")
    elif kind == "str" and not isinstance(value, str):
        raise TypeError(f"{who}({name}={shown(value)}): expected a name, a string.")
    elif kind in NAME_OR_OBJECT and not (isinstance(value, str) or callable(value)):
        raise TypeError(f"{who}({name}=) got {type(value).__name__}, expected a name or {NAME_OR_OBJECT[kind]} object.")
    elif kind == "int":
        whole(value, who, name, 1 if least is None else least)


def widths(value: Any, who: str, name: str, pair: bool) -> None:
    """The width of features, or of those of sources and of targets; -1 is taken from the first input."""
    each = value if pair and isinstance(value, (tuple, list)) and len(value) == 2 else (value,)
    ends = ", or a pair of them for sources and targets" if pair else ""
    if not all(is_whole(x) and (x == -1 or 1 <= x <= MOST) for x in each):
        raise ValueError(
            f"{who}({name}={shown(value)}): expected the width of the features, a whole number, 1 or "
            f"more{ends}; -1 takes it from the first input."
        )
