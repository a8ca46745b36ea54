"""Soft cap of a tile of scores: s' = bound tanh(s / bound), and ds' / ds = 1 - (s' / bound)^2."""

from typing import Any, NamedTuple

import triton
import triton.language as tl

SMALL = tl.constexpr(0.625)  # below it 1 - 2 / (exp(2x) + 1) loses digits
TWICE = tl.constexpr(2 * 1.4426950408889634)


class SoftCapNumbers(NamedTuple):
    """What a soft cap holds."""

    bound: Any
    steep: Any  # 1 / bound


@triton.jit
def tanh(x):
    """As exact as fp32 near 0 and far: a polynomial of Cephes, or one exponential."""
    z = x * x
    near = ((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1
    near = (near * z - 3.33332819422e-1) * z * x + x
    size = tl.abs(x)
    far = 1.0 - 2.0 / (tl.exp2(size * TWICE) + 1.0)
    return tl.where(size < SMALL, near, tl.where(x < 0, -far, far))


@triton.jit
def soft_cap(s, held, query, key, batch, head):
    return held.bound * tanh(s * held.steep)


@triton.jit
def soft_cap_slope(s, out, held):
    part = out * held.steep
    return 1.0 - part * part
