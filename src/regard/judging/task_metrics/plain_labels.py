"""Labels as Python compares them, whatever they came in: lists, arrays, tensors."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from torch import Tensor


def plain_labels(given: "Iterable[Hashable] | Tensor | np.ndarray", name: str) -> list[Hashable]:
    """A list of int or str: (n,) tensors and arrays are taken apart, True is 1, 2.0 is 2; no other float is a label."""
    if isinstance(given, Tensor | np.ndarray) and given.ndim != 1:
        raise ValueError(
            f"classification: {name} has shape {tuple(given.shape)}, expected (n,) labels; of (n, classes) scores take "
            "argmax(-1), and pass the scores as scores=."
        )
    listed = given.tolist() if isinstance(given, Tensor | np.ndarray) else given
    return [_plain(label, name) for label in listed]


def same_kind(said: Iterable[Hashable], wanted: Iterable[Hashable]) -> None:
    """Raise where one side has names and the other numbers: none of them would ever be equal."""
    one, other = list(said), list(wanted)
    kinds = [{_kind(label) for label in side} for side in (one, other)]
    if all(kinds) and not kinds[0] & kinds[1]:
        raise ValueError(
            f"classification: said has {_kind(one[0])}, such as {one[0]!r}, and wanted has {_kind(other[0])}, such as "
            f"{other[0]!r}: none would ever be equal. Give both as names or both as numbers."
        )


def _plain(label: Any, name: str) -> Hashable:
    if isinstance(label, Tensor | np.generic) and (not isinstance(label, Tensor) or label.ndim == 0):
        label = label.item()
    if isinstance(label, bool):
        return int(label)
    if isinstance(label, float):
        if not label.is_integer():
            raise ValueError(
                f"classification: {name} holds {label!r}, which is no label: expected names or whole numbers. "
                "Probabilities go to scores=."
            )
        return int(label)
    if not isinstance(label, Hashable) or isinstance(label, Tensor):
        raise ValueError(f"classification: {name} holds a {type(label).__name__}: expected names or whole numbers.")
    return label


def _kind(label: Hashable) -> str:
    return {int: "whole numbers", str: "names"}.get(type(label), type(label).__name__)
