"""What kernels are given of modifiers: their functions of tiles, and what each holds."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.core.lowering.kernel_forms import ALIBI, CLAMP, DISTANCE_BIAS, GIVEN_BIAS, SOFT_CAP

from .alibi import AlibiSlopes, alibi
from .chain import TileFunctions
from .clamp import ClampNumbers, clamp, clamp_slope
from .codes import ModifierCode, decoded
from .distance_table import DistanceTable, distance_bias
from .pair_bias import PairNumbers, pair_bias
from .soft_cap import SoftCapNumbers, soft_cap, soft_cap_slope

FUNCTIONS: dict[str, tuple[Any, Any]] = {  # the value of a tile, and its slope
    SOFT_CAP: (soft_cap, soft_cap_slope),
    CLAMP: (clamp, clamp_slope),
    ALIBI: (alibi, None),
    DISTANCE_BIAS: (distance_bias, None),
    GIVEN_BIAS: (pair_bias, None),
}


def functions_of(text: str) -> tuple[TileFunctions, TileFunctions]:
    """MODIFY and SLOPES."""
    found = [FUNCTIONS[code.family] for code in decoded(text)]
    return TileFunctions(value for value, _ in found), TileFunctions(slope for _, slope in found)


def held_of(text: str, held: Sequence[Tensor | None], bounds: Sequence[float], n: int, m: int) -> tuple[Any, ...]:
    """MODIFIERS, of n queries and m keys."""
    tensors, numbers = iter(held), iter(bounds)
    codes = decoded(text)
    return tuple(_held(code, next(tensors), n, m) if code.holds else _bound(code, next(numbers)) for code in codes)


def _bound(code: ModifierCode, bound: float) -> Any:
    return SoftCapNumbers(bound, 1 / bound) if code.family == SOFT_CAP else ClampNumbers(bound)


def _held(code: ModifierCode, tensor: Tensor | None, n: int, m: int) -> Any:
    assert tensor is not None
    shift = m - n if code.at_end else 0
    if code.family == ALIBI:
        return AlibiSlopes(tensor.contiguous(), tensor.shape[0], shift)
    if code.family == DISTANCE_BIAS:
        return DistanceTable(tensor.contiguous(), tensor.shape[0], tensor.shape[1] // 2, shift)
    steps = [0 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    by_item, by_head, by_query, by_key = steps
    return PairNumbers(tensor, by_item, by_head, by_query, by_key, code.share, n, m)
