"""What a caller may give as a number, a size or a switch: checked where it is given, told in one sentence.

A number is finite and of a size whose square still fits fp32: beyond it scores overflow, and a row of weights is NaN.
"""

from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

LARGEST, SMALLEST = 1e18, 1e-18
MOST = 2**31 - 1  # of what is counted: kernels hold places in 32 bits


def shown(value: Any) -> str:
    """What was given, short enough for a sentence."""
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def is_whole(value: Any) -> bool:
    """numpy's whole numbers are welcome, True is none."""
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
    if not counts or not least <= value <= most:  # NaN is between none
        kind = "a positive number" if least > 0 else "a number"
        if least == 0:
            bounds = f"0 or more, up to {most:g}"
        else:
            bounds = f"from {least:g} to {most:g}"
        raise ValueError(f"{who}({name}={shown(value)}): expected {kind}, {bounds}{hint}.")
    return float(value)


def flag(value: Any, who: str, name: str) -> bool:
    """True or False, and nothing that only counts as one."""
    if value is not True and value is not False:
        raise TypeError(f"{who}({name}={shown(value)}): expected True or False.")
    return bool(value)


def probability(value: Any, who: str, name: str) -> float:
    """A share that may be dropped: 0 <= p < 1."""
    counts = isinstance(value, (Real, torch.SymFloat)) and not isinstance(value, bool)
    if not counts or not 0.0 <= value < 1.0:
        raise ValueError(f"{who}({name}={shown(value)}): expected a probability, 0 <= {name} < 1.")
    return float(value)

