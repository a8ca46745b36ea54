"""Activations by name, with their derivatives: for pair cores and pointwise modifiers.

`apply_activation` may overwrite its input (tiles are scratch memory); `derivative` is given the input and the output.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .arguments import shown

NAMES = ("tanh", "relu", "leaky_relu", "sigmoid", "identity", "abs", "negative_abs", "negative_half_square", "log")


def _unknown(name: str, argument: str = "activation") -> ValueError:
    return ValueError(
        f"{argument}={shown(name)} is an unknown activation; expected one of {', '.join(NAMES)}, or your own score "
        "class."
    )


def check_activation(name: str, argument: str = "activation") -> None:
    """Raises an error for an unknown name."""
    if not isinstance(name, str) or name not in NAMES:
        raise _unknown(name, argument)


def apply_activation(x: Tensor, name: str, slope: float = 0.0) -> Tensor:
    """act(x), in place where torch can. slope belongs to leaky_relu."""
    if name == "tanh":
        return x.tanh_()
    if name == "relu":
        return x.relu_()
    if name == "leaky_relu":
        if slope < 0:  # torch has no in-place gradient for it
            return F.leaky_relu(x, slope)
        return F.leaky_relu_(x, slope)
    if name == "sigmoid":
        return x.sigmoid_()
    if name == "identity":
        return x
    if name == "abs":
        return x.abs_()
    if name == "negative_abs":
        return x.abs_().neg_()
    if name == "negative_half_square":
        return x.square_().mul_(-0.5)
    if name == "log":
        return x.log_()
    raise _unknown(name)


def derivative(x: Tensor, y: Tensor, name: str, slope: float = 0.0) -> Tensor:
    """d act / dx, a new tensor, from the input x and the output y."""
    if name == "tanh":
        return 1 - y.square()
    if name == "relu":
        return (x > 0).to(x.dtype)
    if name == "leaky_relu":
        return torch.full_like(x, slope).masked_fill_(x > 0, 1.0)  # in the precision of x: a slope of 0.2 is not exact
    if name == "sigmoid":
        return y * (1 - y)
    if name == "identity":
        return torch.ones_like(x)
    if name == "abs":
        return torch.sign(x)
    if name == "negative_abs":
        return -torch.sign(x)
    if name == "negative_half_square":
        return -x
    if name == "log":
        return (1 / x).masked_fill_(x == 0, 0.0)  # log 0 = -inf masks a pair; its gradient is 0
    raise _unknown(name)


def output_suffices(name: str, slope: float = 0.0) -> bool:
    """Whether the derivative follows from the output, so that the input need not be saved."""
    return name in ("tanh", "relu", "sigmoid", "identity") or (name == "leaky_relu" and slope > 0)


def derivative_from_output_(y: Tensor, name: str, slope: float = 0.0) -> Tensor:
    """d act / dx from the output alone, in place."""
    if name == "tanh":
        return torch.sub(1, y.square_(), out=y)
    if name == "sigmoid":
        return y.addcmul_(y, y, value=-1)
    return y.copy_(derivative(y, y, name, slope))
