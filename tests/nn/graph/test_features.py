"""Sparse features: the same product as dense ones, differentiable by the weight, and dropped entry by entry."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from regard.nn.graph.features import dropped, pattern_of, product

LAYOUTS = {"coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr(), "csc": lambda x: x.to_sparse_csc()}


def matrix(rows: int = 7, columns: int = 5) -> Tensor:
    x = torch.randn(rows, columns, dtype=torch.float64)
    x[torch.rand(rows, columns) < 0.7] = 0
    x[2] = 0
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(7, 5), (1, 4), (3, 1), (0, 4)])
def test_the_product_and_its_gradient_are_those_of_the_dense_matrix(layout: str, size: tuple[int, int]) -> None:
    x = matrix(*size) if size[0] > 2 else torch.randn(size, dtype=torch.float64)
    weight = torch.randn(3, size[1], dtype=torch.float64, requires_grad=True)
    pull = torch.randn(size[0], 3, dtype=torch.float64)
    ours, expected = product(LAYOUTS[layout](x), weight), x @ weight.t()
    assert_close(ours, expected)
    assert_close(torch.autograd.grad(ours, weight, pull), torch.autograd.grad(expected, weight, pull))


def test_the_product_is_differentiable_twice() -> None:
    x = matrix().to_sparse()
    weight = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda w: product(x, w).square(), (weight,))


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_dropout_keeps_the_pattern_and_the_expectation(layout: str) -> None:
    x = LAYOUTS[layout](torch.ones(400, 50))
    y = dropped(x, 0.6, training=True)
    assert y.layout == x.layout and pattern_of(y) is pattern_of(x)
    entries = y.to_dense()
    assert set(entries.unique().tolist()) == {0.0, 2.5}
    assert abs(entries.mean().item() - 1) < 0.05  # 6 deviations
    assert dropped(x, 0.6, training=False) is x and dropped(x, 0.0, training=True) is x


def test_dense_dropout_has_the_gradient_of_its_mask() -> None:
    x = torch.ones(100, 40, requires_grad=True)
    y = dropped(x, 0.25, training=True)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert (dropped(x, 1.0, training=True) == 0).all()


def test_layouts_without_rows_or_columns_of_entries_are_named() -> None:
    with pytest.raises(ValueError, match="expected dense features, or sparse ones as COO or CSR"):
        dropped(matrix().to_sparse_csc(), 0.5, training=True)
