"""Elementwise functions that a loop can run on whole vectors: exp and tanh of fp32, products."""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from .config import ONE, TWO, ZERO, f32
from .jit import helper, ieee
from .vector_ops import bits_of_float, float_of_bits

_LOG2E, _ROUND = f32(1.4426950408889634), f32(12582912.0)  # 1.5 * 2^23: adding it rounds to a whole number
_EXP_LEAST, _EXP_MOST = f32(-87.3), f32(88.7)
_LN2_HIGH, _LN2_LOW = f32(0.693359375), f32(-2.12194440e-4)
_E2, _E3, _E4, _E5, _E6, _E7 = (f32(1 / math.factorial(i)) for i in range(2, 8))
_TANH_SERIES_BELOW = f32(0.5)
_T3, _T5, _T7, _T9, _T11, _T13 = (
    f32(x) for x in (-1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075)
)


@ieee
def _exp_of_float(x: Any) -> Any:
    """Within 2 ulp; 0 below -87.3; NaN stays NaN. x = k log 2 + r, |r| <= log(2) / 2, and a polynomial in r."""
    y = _EXP_LEAST if x < _EXP_LEAST else x
    y = _EXP_MOST if y > _EXP_MOST else y
    shifted = y * _LOG2E + _ROUND
    k = shifted - _ROUND
    r = (y - k * _LN2_HIGH) - k * _LN2_LOW
    p = ((((_E7 * r + _E6) * r + _E5) * r + _E4) * r + _E3) * r + _E2
    p = (p * r) * r + r + ONE
    power = (bits_of_float(shifted) - np.int32(0x4B400000) + np.int32(127)) << np.int32(23)
    return ZERO if x < _EXP_LEAST else p * float_of_bits(np.int32(power))


@ieee
def _tanh_of_float(x: Any) -> Any:
    size = abs(x)
    z = x * x
    near = x + x * z * (((((_T13 * z + _T11) * z + _T9) * z + _T7) * z + _T5) * z + _T3)
    big = TWO * size
    far = ONE - TWO / (_exp_of_float(f32(40) if big > f32(40) else big) + ONE)
    return near if size < _TANH_SERIES_BELOW else (far if x > ZERO else -far)


def exp(x: Any) -> Any:
    return math.exp(x)


def tanh(x: Any) -> Any:
    return math.tanh(x)


@overload(exp)
def _(x):
    return (lambda x: _exp_of_float(x)) if x == types.float32 else (lambda x: math.exp(x))


@overload(tanh)
def _(x):
    return (lambda x: _tanh_of_float(x)) if x == types.float32 else (lambda x: math.tanh(x))


@helper
def multiply_in_place(x, y, size):
    """x *= y"""
    p, q = x.reshape(x.size), y.reshape(y.size)
    for k in range(size):
        p[k] *= q[k]


@helper
def multiply_into(out, x, y, size):
    """out = x * y"""
    o, p, q = out.reshape(out.size), x.reshape(x.size), y.reshape(y.size)
    for k in range(size):
        o[k] = p[k] * q[k]
