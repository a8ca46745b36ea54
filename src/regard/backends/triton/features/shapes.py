"""Shapes of what the backward reads of each row; Triton is not imported here."""

from torch import Tensor

LOG2E = 1.4426950408889634
BOUND = 60.0  # of scores in base 2


def bounded(kind: int, factor: float, bias: Tensor | None) -> bool:
    """Whether scores lie between 0 and -2 BOUND in base 2: they need no largest one to stay finite."""
    return kind == 0 and bias is None and 0 <= factor * LOG2E <= BOUND


def rows_shape(a: Tensor, kind: int, factor: float, bias: Tensor | None) -> tuple[int, ...]:
    return 1 if bounded(kind, factor, bias) else 2, *a.shape
