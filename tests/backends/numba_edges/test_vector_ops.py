"""Hand-written LLVM gives the bits of the plain loop that defines it."""

import numpy as np
import pytest

pytest.importorskip("numba")

import numba

from regard.backends.numba_edges import vector_ops, vector_ops_naive

LINES = [name for name in vars(vector_ops_naive) if name.startswith("line_")]
BY_HEAD = [
    "heads_scaled",
    "heads_add_scaled",
    "heads_set_product",
    "heads_add_product",
    "heads_add_leaky_gradient",
]
DOTS = [name for name in vars(vector_ops_naive) if name.startswith(("heads_dot", "heads_leaky_dot"))]
HEADS, WIDTHS = 3, (0, 1, 3, 4, 7, 8, 13, 21)  # vectors of eight, of four, and what is left


def whole_numbers(seed, dtype):
    """Small whole numbers and their halves: sums and products of them are exact in any order, fused or not."""
    return np.random.default_rng(seed).integers(-8, 9, (4, 80)).astype(dtype) / 2


def arguments_of(name, width, dtype):
    out, x, y, z, u, weights = (whole_numbers(seed, dtype) for seed in range(6))
    slope, scale = dtype(0.25), dtype(2)
    if name in LINES:
        return out, 5, x, 2, y, 83, HEADS * width, slope
    if name in BY_HEAD:
        return out, 5, x, 2, y, 83, weights, 1, HEADS, width, slope
    if name in DOTS:
        return out, 5, x, 2, y, 83, z, 7, u, 81, HEADS, width, slope, scale
    if name == "heads_add_leaky_gradients":
        return out, 5, z, 7, x, 2, y, 83, weights, 1, HEADS, width, slope
    if name == "heads_add_four_scaled":
        return out, 5, x, 2, 83, 0, 160, weights, 1, HEADS, width
    assert name == "heads_add_four_scaled_and_dots"
    return out, 5, y, 4, x, 2, 83, 0, 160, weights, 1, z, HEADS, width


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in vars(vector_ops_naive) if name.startswith(("line_", "heads_"))])
def test_an_instruction_has_the_bits_of_its_plain_loop(name, dtype):
    instruction = getattr(vector_ops, name)
    compiled = numba.njit(lambda *arguments: instruction(*arguments))
    for width in WIDTHS:
        arguments, expected = arguments_of(name, width, dtype), arguments_of(name, width, dtype)
        compiled(*arguments)
        getattr(vector_ops_naive, name)(*expected)
        for table, same in zip(arguments, expected, strict=True):
            if isinstance(table, np.ndarray):
                np.testing.assert_array_equal(table, same, strict=True)


def test_each_instruction_over_tables_has_a_plain_loop():
    on_tables = {name for name in vars(vector_ops) if name.startswith(("line_", "heads_"))}
    assert on_tables == {name for name in vars(vector_ops_naive) if name.startswith(("line_", "heads_"))}


@pytest.mark.parametrize("name", ["line_maximum", "line_subtract", "line_add"])
def test_nan_and_infinities_pass_through_lines_as_through_loops(name):
    odd = np.array([[1, np.nan, -np.inf, np.inf, np.nan, 2, -np.inf, 0, 3]], np.float32)
    out, same = (odd[:, ::-1].copy() for _ in range(2))
    instruction = getattr(vector_ops, name)
    numba.njit(lambda *arguments: instruction(*arguments))(out, 0, odd, 0, odd, 0, 9, np.float32(0))
    with np.errstate(invalid="ignore"):
        getattr(vector_ops_naive, name)(same, 0, odd, 0, odd, 0, 9, np.float32(0))
    np.testing.assert_array_equal(out, same)
