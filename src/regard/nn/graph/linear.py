"""Linear maps of node and edge features, initialised as in torch_geometric."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .features import product


class Linear(nn.Linear):
    """y = x W^T + b. x may be torch.sparse, as bag-of-words features are. W is Glorot-initialised by default."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, glorot: bool = True):
        self.glorot = glorot
        super().__init__(inputs, outputs, bias)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.glorot:
            glorot_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        if x.layout == torch.strided:
            return F.linear(x, self.weight, self.bias)
        y = product(x, self.weight)
        return y if self.bias is None else y + self.bias


class LazyLinear(nn.LazyLinear):
    """The same with its input width taken from the first input."""

    cls_to_become = Linear  # type: ignore[assignment]

    def __init__(self, outputs: int, bias: bool = True, glorot: bool = True):
        self.glorot = glorot
        super().__init__(outputs, bias)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features:
            nn.Linear.reset_parameters(self)
            if self.glorot:
                glorot_(self.weight)


def linear(inputs: int, outputs: int, bias: bool = True, glorot: bool = True) -> nn.Linear:
    """A linear map; inputs=-1 takes the width from the first input."""
    return LazyLinear(outputs, bias, glorot) if inputs == -1 else Linear(inputs, outputs, bias, glorot)


def glorot_(x: Tensor) -> Tensor:
    """Uniform within sqrt(6 / (last + second last axis)), in place."""
    bound = (6.0 / (x.shape[-2] + x.shape[-1])) ** 0.5
    return nn.init.uniform_(x, -bound, bound)


def heads_first(x: Tensor, heads: int) -> Tensor:
    """(..., N, H C) -> (..., H, N, C), a view."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(-2, -3)


def heads_last(x: Tensor, concat: bool = True) -> Tensor:
    """(..., H, N, C) -> (..., N, H C), or (..., N, C) as the mean of the heads."""
    return x.transpose(-2, -3).flatten(-2) if concat else x.mean(-3)
