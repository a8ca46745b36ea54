"""Splitting and joining heads, checks of widths, and the norm of a head's output."""

from torch import Tensor, nn


def split(x: Tensor, heads: int) -> Tensor:
    """(..., n, heads * d) -> (..., heads, n, d)"""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def joined(x: Tensor) -> Tensor:
    """(..., heads, n, d) -> (..., n, heads * d)"""
    return x.transpose(-3, -2).flatten(-2)


def check_divides(name: str, dim: int, heads: int) -> int:
    """The width of a head."""
    if dim % heads:
        raise ValueError(f"{name}(dim={dim}, heads={heads}): heads do not divide dim; {dim // heads * heads} would do.")
    return dim // heads


def key_heads(name: str, heads: int, kv_heads: int | None) -> int:
    """The number of key heads: a divisor of `heads` (GQA), `heads` unless given."""
    if kv_heads is None:
        return heads
    if heads % kv_heads:
        raise ValueError(f"{name}(heads={heads}, kv_heads={kv_heads}): expected a number that divides heads.")
    return kv_heads


def check_width(name: str, x: Tensor, dim: int) -> None:
    if not isinstance(x, Tensor) or x.ndim < 2 or x.shape[-1] != dim:
        given = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"{name} was built for width {dim}, but x is {given}: expected (..., length, {dim}).")


class HeadNorm(nn.Module):
    """Each head's output divided by its root mean square: x / sqrt(mean x^2 + eps) * weight, x (..., n, d)."""

    def __init__(self, d: int, eps: float = 1e-5):
        super().__init__()
        self.norm = nn.RMSNorm(d, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(x)
        return found
