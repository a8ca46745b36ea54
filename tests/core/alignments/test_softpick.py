"""A softmax that may pick nothing."""

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Dot, Softpick, attend

S = torch.tensor([[1.0, 0.0, -1.0, 2.0], [-1.0, -2.0, -3.0, -4.0], [0.5, 0.5, 0.5, 0.5]], dtype=torch.float64)


def naive(s):
    excess = s.exp() - 1
    return excess.clamp_min(0) / excess.abs().sum(-1, keepdim=True)


def test_weights_are_the_formula():
    assert_close(Softpick()(S), naive(S))


def test_a_row_sums_to_one_without_negative_scores_and_to_zero_without_positive_ones():
    sums = Softpick()(S).sum(-1)
    assert 0 < sums[0] < 1
    assert sums[1] == 0
    assert_close(sums[2], torch.ones((), dtype=S.dtype))


@pytest.mark.parametrize("shift", [-1e4, -50.0, 30.0, 80.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_and_small_scores_neither_overflow_nor_lose_their_digits(shift, dtype):
    s = (S + shift).to(dtype)
    weights = Softpick()(s)
    assert weights.isfinite().all()
    expected = torch.softmax(S + shift, -1) if shift > 20 else torch.zeros_like(S)  # exp(s) - 1 is exp(s), or -1
    assert_close(weights.double(), expected, atol=1e-6, rtol=1e-3 if shift > 1000 and dtype == torch.float32 else 1e-5)
    tiny = torch.tensor([[1e-6, 3e-6]], dtype=dtype)
    assert_close(Softpick()(tiny), torch.tensor([[0.25, 0.75]], dtype=dtype), atol=0, rtol=1e-5)


def test_scores_of_zero_pick_nothing_and_have_a_finite_gradient():
    s = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    weights = Softpick()(s)
    assert (weights == 0).all()
    assert torch.autograd.grad(weights.sum(), s)[0].isfinite().all()


def test_the_gradient_of_chunked_is_that_of_the_definition():
    q, k, v = (torch.randn(2, 3, 6, 4, dtype=torch.float64).requires_grad_() for _ in range(3))
    found = []
    for backend in ("reference", "chunked"):
        out, amap = attend(q, k, v, Dot(), "softpick", Causal(), backend=backend)
        found.append([out, amap.weights(), amap.tile([5, 2], [0, 3]), *torch.autograd.grad(out.sin().sum(), [q, k, v])])
    for a, b in zip(*found, strict=True):
        assert_close(a, b)
    assert torch.autograd.gradgradcheck(Softpick(), S[:1].add(0.1).requires_grad_())
