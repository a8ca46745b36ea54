"""Validation of a layer's inputs against the widths that the layer was built for."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from ..core.arguments import flag, kind_of, shown
from ..core.structures import Structure, structure_of

F = TypeVar("F", bound=Callable[..., Any])
IDS = ("batch", "index", "ptr", "neg_edge_index")  # tensors of whole numbers
MULTIPLIES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.RNNBase, nn.RNNCellBase)  # need the dtype of their input


def reads(**widths: "str | tuple[str, ...] | None") -> Callable[[F], F]:
    """A forward whose features, structures and switches are checked.

        @reads(first="first_dim", second=("second_dim", "first_dim"))

    names the constructor argument that fixes the width of each (the first that was given); None accepts any width. The
    batch axes of all must agree. Structures, switches and tensors of ids are recognised by annotation and name.
    Nothing is checked while tracing.
    """

    def decorate(forward: F) -> F:
        parameters = inspect.signature(forward).parameters
        names = list(parameters)[1:]
        kinds = {name: kind_of(parameter.annotation) for name, parameter in parameters.items()}
        optional = {name for name, parameter in parameters.items() if kinds[name].endswith(" | None")}

        @wraps(forward)
        def reading(self: nn.Module, *args: Any, **options: Any) -> Any:
            if not torch.compiler.is_compiling():
                read = {}
                for name, value in (*zip(names, args, strict=False), *options.items()):
                    if value is None and name in optional:
                        continue
                    if name in widths:
                        read[name] = check_features(self, value, name, *_width(self, widths[name]))
                    elif name in kinds:
                        _check(self, value, name, kinds[name].removesuffix(" | None"))
                _check_alike(self, read)
            return forward(self, *args, **options)

        return reading  # type: ignore[return-value]

    return decorate


def _width(layer: nn.Module, by: "str | tuple[str, ...] | None") -> tuple[int | None, str]:
    """A width and the argument that fixed it; the first argument if none was given."""
    names = () if by is None else (by,) if isinstance(by, str) else by
    sizes: dict[str, int] = layer.sizes  # type: ignore[assignment]
    return next((sizes[name] for name in names if name in sizes), None), names[0] if names else ""


def check_features(layer: nn.Module, x: Any, name: str, width: int | None, by: str) -> Tensor:
    """x (..., length, width), in the dtype and on the device of the layer."""
    who = type(layer).__name__
    expected = f"a tensor (..., length, {'width' if width is None else width})"
    if not isinstance(x, Tensor):
        raise TypeError(f"{who}: {name} is {shown(x)}, expected {expected}.")
    hint = " One query for each item is query[..., None, :]." if name == "query" else ""
    if x.ndim < 2 or width not in (None, x.shape[-1]):
        raise ValueError(
            f"{who}: {name} has shape {tuple(x.shape)}, expected {expected}: the width is fixed "
            f"by {who}({by}={width}).{hint}"
        )
    check_type(layer, x, name)
    return x


def check_type(layer: nn.Module, x: Tensor, name: str, inner: bool = True) -> None:
    """Features and parameters must share a device, and a dtype where they are multiplied: by torch modules, or by
    any matrix of the layer if not inner."""
    who = type(layer).__name__
    if not x.is_floating_point():
        raise TypeError(f"{who}: {name} is {x.dtype}, expected floating-point features: {name.split()[0]}.float().")
    weight = next((p for p in layer.parameters() if not isinstance(p, UninitializedParameter)), None)
    if weight is None:
        return
    if x.device != weight.device:
        raise ValueError(f"{who}: {name} is on {x.device}, this layer is on {weight.device}: move one with .to(...).")
    if x.dtype == weight.dtype:  # the usual case: skip searching the layer
        return
    parts = [m for m in layer.modules() if isinstance(m, MULTIPLIES)] if inner else [layer]
    weights = (p for part in parts for p in part.parameters())
    matrix = next((p for p in weights if not isinstance(p, UninitializedParameter) and p.ndim > 1), None)
    if matrix is not None and x.dtype != matrix.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"{who}: {name} is {x.dtype}, this layer is {matrix.dtype}: convert one of them, "
            f"{name.split()[0]}.to({matrix.dtype}) or layer.to({x.dtype})."
        )


def is_ids(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def _check(layer: nn.Module, value: Any, name: str, kind: str) -> None:
    who = type(layer).__name__
    if kind == "bool":
        flag(value, who, name)
    elif kind == "Structure" and not isinstance(value, Structure):
        try:
            structure_of(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{who}: {name} is no structure. {error}") from None
    elif kind == "Tensor" and name in IDS and not (isinstance(value, Tensor) and is_ids(value)):
        raise TypeError(f"{who}: {name} is {shown(value)}, expected a tensor of integers.")
    elif kind == "Tensor" and not isinstance(value, Tensor):
        raise TypeError(f"{who}: {name} is {shown(value)}, expected a tensor.")


def _check_alike(layer: nn.Module, read: dict[str, Tensor]) -> None:
    if len({x.shape[:-2] for x in read.values()}) > 1:
        told = ", ".join(f"{name} {tuple(x.shape)}" for name, x in read.items())
        raise ValueError(f"{type(layer).__name__}: {told} differ in their batch axes (all but the last two).")
