"""Local attention, monotonic and predictive, against Luong's description (taxonomy 2.2 C)."""

import math

import pytest
import torch
from tests.core.mechanisms import built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Full, Local, LocalPredictive, Padding, attend


def predictive(align: LocalPredictive, q: Tensor, k: Tensor, v: Tensor, lengths: list[int], window: int) -> Tensor:
    """By the letter: the window on floor(p), softmax inside it, a bell about the real p, no renormalising."""
    rows = torch.zeros_like(q)
    for b, length in enumerate(lengths):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                logit = align.v[h] @ torch.tanh(align.matrix[h] @ q[b, h, i])
                p = (length - 1) * torch.sigmoid(logit)
                inside = [j for j in range(length) if abs(j - math.floor(p.item())) <= window]
                s = torch.stack([q[b, h, i] @ k[b, h, j] / 2 for j in inside])
                w = torch.softmax(s, 0)
                bell = torch.stack([torch.exp(-((j - p) ** 2) / (2 * (window / 2) ** 2)) for j in inside])
                rows[b, h, i] = sum(x * g * v[b, h, j] for x, g, j in zip(w, bell, inside, strict=True))
    return rows


@pytest.mark.parametrize("window", [1, 2, 3])
def test_predictive_attention_is_luongs_with_the_true_lengths_of_a_padded_batch(window: int) -> None:
    q, k, v = inputs(m=9)
    align = LocalPredictive(window, 4, heads=2).double()
    with torch.no_grad():
        for p in align.parameters():
            p.normal_(generator=torch.Generator().manual_seed(2))
    garbage = (torch.arange(9) >= torch.tensor([9, 6])[:, None])[:, None, :, None]
    out = attend(
        q, k.masked_fill(garbage, 1e6), v.masked_fill(garbage, 1e6), align=align, over=Padding(torch.tensor([9, 6]))
    ).out
    expected = predictive(align, q, k, v, [9, 6], window)
    assert_close(out, expected)
    tensors = [q, k, v, align.matrix, align.v]
    for a, b in zip(
        torch.autograd.grad(out.square().sum(), tensors),
        torch.autograd.grad(expected.square().sum(), tensors),
        strict=True,
    ):
        assert_close(a, b)


def test_without_sizes_the_place_is_the_even_readout_of_tanh_of_the_query() -> None:
    q, k, v = inputs(m=9)
    sized = LocalPredictive(2, 4).double()
    with torch.no_grad():
        sized.matrix.copy_(torch.eye(4)[None])
        sized.v.fill_(0.5)
    assert_close(attend(q, k, v, align="local_predictive").out, attend(q, k, v, align=LocalPredictive(10)).out)
    assert_close(attend(q, k, v, align=LocalPredictive(2)).out, attend(q, k, v, align=sized).out)


def test_predictive_rows_sum_to_less_than_one_and_are_zero_outside_the_window() -> None:
    q, k, v = inputs(m=12)
    align = built("local_predictive")
    amap = attend(q, k, v, align=align).map
    centre = align.centre(q, torch.tensor([12, 12])).floor()
    outside = (torch.arange(12) - centre[..., None]).abs() > 2
    assert (amap.weights().sum(-1) < 1).all()
    assert (amap.weights()[outside] == 0).all()


def test_the_bell_at_the_edge_of_the_window_is_e_to_the_minus_two() -> None:
    """A query of zero stands at p = (S - 1) / 2 = 4, a whole number; all scores are equal."""
    q, k, v = (x.detach() for x in inputs(n=1, m=9))
    weights = attend(0 * q, k, v, align=LocalPredictive(3)).map.weights()[0, 0, 0]
    assert_close((weights[4 + 3] / weights[4]).item(), math.exp(-2))
    assert_close(weights[4].item(), 1 / 7)


def test_the_place_learns_through_the_bell_alone() -> None:
    q, k, v = (x.detach() for x in inputs(m=9))
    align = built("local_predictive")
    amap = attend(q, k, v, align=align).map
    assert all((g != 0).any() for g in torch.autograd.grad(attend(q, k, v, align=align).out.sum(), align.parameters()))
    place = align.centre(q, torch.tensor([9, 9])).flatten(0, 1)[..., None]
    bell = torch.exp(-((torch.arange(9) - place) ** 2) / 2)  # window 2: the bell is 1 wide
    inside = (amap.weights() / bell.detach().unflatten(0, (2, 2))).detach()  # softmax in the window, a constant
    by_bell = torch.autograd.grad(((inside * bell.unflatten(0, (2, 2))) @ v).sum(), align.parameters())
    assert_close(torch.autograd.grad(attend(q, k, v, align=align).out.sum(), align.parameters()), by_bell)


def test_the_place_lies_between_the_first_and_the_last_valid_key() -> None:
    align = built("local_predictive")
    with torch.no_grad():
        align.v.mul_(100)  # so that the place reaches both ends
    centre = align.centre(inputs(n=50)[0], torch.tensor([7, 3]))
    assert (centre >= 0).all()
    assert (centre[0] <= 6).all()
    assert (centre[1] <= 2).all()
    assert centre[1].amax() > 1.99


@pytest.mark.parametrize("window", [0, 1, 3])
def test_monotonic_attention_is_softmax_within_the_window_about_the_querys_own_place(window: int) -> None:
    q, k, v = inputs(n=6, m=4)
    out, amap = attend(q, k, v, align=Local(window))
    for i in range(6):
        inside = [j for j in range(4) if abs(i - j) <= window]
        s = torch.stack([(q[:, :, i] * k[:, :, j]).sum(-1) / 2 for j in inside], -1) if inside else None
        expected = torch.zeros(2, 2, 4, dtype=torch.float64)
        if s is not None:
            expected[..., inside] = torch.softmax(s, -1).detach()
        assert_close(amap.weights()[:, :, i], expected)
        assert_close(out[:, :, i], torch.einsum("bhj,bhjd->bhd", expected, v))


def test_a_window_as_wide_as_the_keys_is_softmax() -> None:
    q, k, v = inputs(n=5, m=5)
    assert_close(attend(q, k, v, align=Local(5)).out, attend(q, k, v, over=Full()).out)


def test_a_query_that_stands_beyond_the_last_key_by_more_than_the_window_has_an_empty_row() -> None:
    q, k, v = inputs(n=9, m=4)
    out = attend(q, k, v, align=Local(2)).out
    assert (out[:, :, 4 + 2 :] == 0).all()
    assert (out[:, :, : 4 + 2] != 0).any(-1).all()
