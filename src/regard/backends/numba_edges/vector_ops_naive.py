"""The definition of each instruction of `vector_ops`, as a plain loop: same names, same arguments.

A line starts at an offset that counts values from the start of its table. Tests compare both bit for bit; kernels
call `vector_ops` alone.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Table = np.ndarray[Any, Any]


def _leaky_relu(x: float, slope: float) -> float:
    return x if x > 0 else slope * x


def _leaky_relu_slope(x: float, slope: float) -> float:
    return 1 if x > 0 else slope


def _line(function: Callable[..., float]) -> Callable[..., None]:
    """out[o : o + n] = function(out, x, y, s) of x[p : p + n], y[q : q + n]."""

    def loop(out: Table, o: int, x: Table, p: int, y: Table, q: int, n: int, s: float) -> None:
        into, x, y = out.reshape(-1), x.reshape(-1), y.reshape(-1)
        for k in range(n):
            into[o + k] = function(into[o + k], x[p + k], y[q + k], s)

    return loop


def _line_by_head(function: Callable[..., float]) -> Callable[..., None]:
    """The same for each head in turn, n values each: function(out, x, y, s, u), where s is weights[w + head]."""

    def loop(
        out: Table,
        o: int,
        x: Table,
        p: int,
        y: Table,
        q: int,
        weights: Table,
        w: int,
        heads: int,
        n: int,
        u: float,
    ) -> None:
        into, x, y, weights = out.reshape(-1), x.reshape(-1), y.reshape(-1), weights.reshape(-1)
        for k in range(heads * n):
            into[o + k] = function(into[o + k], x[p + k], y[q + k], weights[w + k // n], u)

    return loop


def _dot_by_head(function: Callable[..., float]) -> Callable[..., None]:
    """out[o + head] = scale times the sum of function(x, y, z, u, s) over the n values of a head."""

    def loop(
        out: Table,
        o: int,
        x: Table,
        p: int,
        y: Table,
        q: int,
        z: Table,
        r: int,
        u: Table,
        t: int,
        heads: int,
        n: int,
        s: float,
        scale: float,
    ) -> None:
        into, x, y, z, u = out.reshape(-1), x.reshape(-1), y.reshape(-1), z.reshape(-1), u.reshape(-1)
        for head in range(heads):
            total = into.dtype.type(0)
            for k in range(head * n, head * n + n):
                total += function(x[p + k], y[q + k], z[r + k], u[t + k], s)
            into[o + head] = scale * total

    return loop


line_sum = _line(lambda out, x, y, s: x + y)
line_product = _line(lambda out, x, y, s: x * y)
line_add = _line(lambda out, x, y, s: out + x)
line_subtract = _line(lambda out, x, y, s: out - x)
line_multiply = _line(lambda out, x, y, s: out * x)
line_copy = _line(lambda out, x, y, s: x)
line_fill = _line(lambda out, x, y, s: s)
line_scaled = _line(lambda out, x, y, s: s * x)
line_add_product = _line(lambda out, x, y, s: out + s * (x * y))
line_maximum = _line(lambda out, x, y, s: out if math.isnan(out) or x <= out else x)

heads_scaled = _line_by_head(lambda out, x, y, s, u: s * x)
heads_add_scaled = _line_by_head(lambda out, x, y, s, u: out + s * x)
heads_set_product = _line_by_head(lambda out, x, y, s, u: s * (x * y))
heads_add_product = _line_by_head(lambda out, x, y, s, u: out + s * (x * y))
heads_add_leaky_gradient = _line_by_head(lambda out, x, y, s, u: out + s * _leaky_relu_slope(x + y, u))

heads_dot = _dot_by_head(lambda x, y, z, u, s: x * y)
heads_dot_sum = _dot_by_head(lambda x, y, z, u, s: x * (y + u))
heads_dot_product = _dot_by_head(lambda x, y, z, u, s: x * (y * u))
heads_leaky_dot = _dot_by_head(lambda x, y, z, u, s: z * _leaky_relu(x + y, s))
heads_leaky_dot_sum = _dot_by_head(lambda x, y, z, u, s: z * _leaky_relu(x + y + u, s))
heads_leaky_dot_product = _dot_by_head(lambda x, y, z, u, s: z * _leaky_relu(x + y * u, s))


def heads_add_leaky_gradients(
    out: Table,
    o: int,
    read: Table,
    r: int,
    x: Table,
    p: int,
    y: Table,
    q: int,
    weights: Table,
    w: int,
    heads: int,
    n: int,
    slope: float,
) -> None:
    """out += s LeakyReLU'(x + y) and read += s LeakyReLU(x + y) for each head, s = weights[w + head]."""
    into, reads, x, y, weights = (table.reshape(-1) for table in (out, read, x, y, weights))
    for k in range(heads * n):
        total, s = x[p + k] + y[q + k], weights[w + k // n]
        into[o + k] += s * _leaky_relu_slope(total, slope)
        reads[r + k] += s * _leaky_relu(total, slope)


def heads_add_four_scaled(
    out: Table, o: int, x: Table, p: int, q: int, r: int, s: int, weights: Table, w: int, heads: int, n: int
) -> None:
    """out[o : o + n] += weights[w] x[p : p + n] + weights[w + heads] x[q : q + n] + ..., for each head in turn."""
    into, x, weights = out.reshape(-1), x.reshape(-1), weights.reshape(-1)
    for k in range(heads * n):
        for edge, start in enumerate((p, q, r, s)):
            into[o + k] += weights[w + edge * heads + k // n] * x[start + k]


def heads_add_four_scaled_and_dots(
    out: Table,
    o: int,
    y: Table,
    k: int,
    x: Table,
    p: int,
    q: int,
    r: int,
    s: int,
    weights: Table,
    w: int,
    dots: Table,
    heads: int,
    n: int,
) -> None:
    """`heads_add_four_scaled`, and dots[w] = <y[k : k + n], x[p : p + n]> and so on."""
    heads_add_four_scaled(out, o, x, p, q, r, s, weights, w, heads, n)
    for edge, start in enumerate((p, q, r, s)):
        heads_dot(dots, w + edge * heads, y, k, x, start, y, k, x, start, heads, n, 0, 1)
