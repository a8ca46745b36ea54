"""Where weights come from: functions that normalise, and those that do so together with a division or a difference."""

from typing import Any

import torch
from torch import Tensor

from .arguments import argument
from .function_table import names
from .origins import Origins
from .trace import Trace

SOFTMAX = names("softmax softmin gumbel_softmax log_softmax")
ELEMENTS = names("exp exp2 expm1 sigmoid relu relu6 clamp clamp_min hardsigmoid softplus threshold")
STARTS = SOFTMAX | ELEMENTS | {"normalize"}


def started(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, origins: Origins) -> Trace | None:
    """The weights that begin here; None where this is no normalisation."""
    x = argument(args, kwargs, 0, "input", "self", "logits")
    if not isinstance(x, Tensor) or not isinstance(out, Tensor) or not out.is_floating_point() or not out.ndim:
        return None
    origin = origins.of(x)
    if name in SOFTMAX or name == "normalize":
        return _by_row(name, x, args, kwargs, out, origins)
    if name in ("exp", "exp2", "expm1"):
        return Trace(out, "exp", None, origin.features, of_parameters=origin.constant, product=origin.product)
    if name in ("clamp", "clamp_min"):
        least = argument(args, kwargs, 1, "min")
        if isinstance(least, Tensor) or least != 0:
            return None
    if not origin.product:  # a router may divide these by their sum
        gate = name in ("sigmoid", "softplus") and origin.features
        return Trace(out, "gate", None, origin.features) if gate else None
    if name == "softplus":
        return None
    how = "sigmoid" if "sigmoid" in name else "relu"
    return Trace(out, how, None, origin.features)


def _by_row(name: str, x: Tensor, args: Any, kwargs: Any, out: Tensor, origins: Origins) -> Trace | None:
    origin = origins.of(x)
    if name == "normalize":
        if not origin.product:
            return None
        if argument(args, kwargs, 1, "p", default=2.0) != 1:
            return None
        dim = argument(args, kwargs, 2, "dim", default=1)
    else:
        dim = argument(args, kwargs, 4 if name == "gumbel_softmax" else 1, "dim")
        if dim is None:  # as torch chooses it, with a warning
            dim = -1 if name == "gumbel_softmax" else 0 if x.ndim in (0, 1, 3) else 1
    if not isinstance(dim, int):
        return None
    axis = dim % out.ndim
    of_parameters = origins.parametric(x, axis) or origins.constant(x)
    dense = out.to_dense() if out.layout == torch.sparse_coo else out
    made = Trace(
        dense, "log" if name == "log_softmax" else "softmax", axis, origin.features, of_parameters=of_parameters
    )
    if out.is_nested:
        made.lost = "softmax of a nested tensor"
    return made
