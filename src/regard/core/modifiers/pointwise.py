"""Functions of a score alone: soft cap, clamp, activation."""

import torch
from torch import Tensor, nn

from ..activations import apply_activation, check_activation, derivative
from ..arguments import SMALLEST, number, sizes
from ..errors import check_heads
from ..lowering.kernel_forms import CLAMP, SOFT_CAP, ModifierForm
from ..lowering.score_kernels import Grads
from ..lowering.tiles import Tile
from .modifier import Modifier, add_by_head, by_head, gathered_sum, spread


class SoftCap(Modifier):
    """Smooth saturation of scores at a bound.

        s' = cap * tanh(s / cap),   |s'| < cap

    Also known as: soft capping, logit soft-capping, tanh clipping.
    Shen et al. 2018 (DiSAN); Gemma 2, 2024.
    """

    kept = ("cap",)
    closed = True

    def __init__(self, cap: float):
        super().__init__()
        self.cap = number(cap, "SoftCap", "cap", SMALLEST, hint=", a bound for the scores such as 50.0")

    def kernel_form(self) -> ModifierForm:
        return ModifierForm(SOFT_CAP, self.cap)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return self.cap * torch.tanh(s / self.cap)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        return ds * (1 - (out / self.cap).square())


class Clamp(Modifier):
    """Clipping of scores to a bound, with zero gradient outside.

        s' = min(max(s, -bound), bound)

    Also known as: logit clipping.
    Dwivedi & Bresson 2020.
    """

    kept = ("bound",)
    closed = True

    def __init__(self, bound: float):
        super().__init__()
        self.bound = number(bound, "Clamp", "bound", SMALLEST, hint=", a bound for the scores such as 5.0")

    def kernel_form(self) -> ModifierForm:
        return ModifierForm(CLAMP, self.bound)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return s.clamp(-self.bound, self.bound)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        return ds * (s.abs() <= self.bound)


class Activation(Modifier):
    """An activation of the scores, with a bias for each head.

        s' = act(s + b)

    b one number a head, act by name; "log" turns a kernel into a score. Ma et al. 2017 (activated general).
    """

    kept = ("name", "slope", "bias")
    closed = True

    def __init__(self, name: str, bias: int | None = None, slope: float = 0.2):
        super().__init__()
        check_activation(name, "name")
        self.name, self.slope = name, number(slope, "Activation", "slope")
        (bias,) = sizes("Activation", bias=bias)
        self.bias = nn.Parameter(torch.zeros(bias)) if bias is not None else None

    def check(self, heads: int) -> None:
        if self.bias is not None:
            check_heads(self, self.bias.shape[0], heads)

    def on(self, s: Tensor) -> Tensor:
        """forward for scores of shape (..., H, n, m)."""
        shifted = s if self.bias is None else s + self.bias.to(s.dtype)[:, None, None]
        return apply_activation(shifted.clone(), self.name, self.slope)

    def forward(self, s: Tensor, tile: Tile) -> Tensor:
        return apply_activation(self._shifted(s, tile).clone(), self.name, self.slope)

    def _shifted(self, s: Tensor, tile: Tile) -> Tensor:
        return s if self.bias is None else s + spread(by_head(self.bias.to(s.dtype), tile), s)

    def vjp(self, s: Tensor, tile: Tile, out: Tensor, ds: Tensor, grads: Grads) -> Tensor:
        ds = ds * derivative(self._shifted(s, tile), out, self.name, self.slope)
        if self.bias is not None:
            add_by_head(grads.of(self.bias), tile, gathered_sum(ds).sum((1, 2)))
        return ds
