"""Alignments that look at every key (taxonomy 2.2 A, H, I and the ablation)."""

import math

import pytest
import torch
from tests.core.mechanisms import inputs
from torch.testing import assert_close

from regard import Alignment, Causal, Gumbel, Mask, Padding, ReLU, Sigmoid, Softmax, TopK, attend


def test_softmax_weights_are_positive_and_tau_is_the_logarithm_of_their_sum() -> None:
    q, k, v = inputs()
    s = q @ k.mT / 2
    amap = attend(q, k, v).map
    assert (amap.weights() > 0).all()
    assert_close(amap.tau, torch.logsumexp(s, -1).detach())
    assert_close(amap.weights(), torch.exp(s - amap.tau[..., None]).detach())


def test_soft_attention_of_images_and_global_attention_of_translation_are_one_function() -> None:
    q, k, v = inputs(n=1)
    weights = attend(q, k, v, "additive").map.weights()
    scores = torch.tanh(q + k).sum(-1) / 2
    exp = torch.exp(scores - scores.amax(-1, keepdim=True))
    assert_close(weights[:, :, 0], (exp / exp.sum(-1, keepdim=True)).detach())


def test_sigmoid_of_zero_scores_sums_to_n_over_n_plus_one() -> None:
    for n in (1, 4, 100):
        s = torch.zeros(1, n, dtype=torch.float64)
        assert math.isclose(Sigmoid()(s).sum().item(), n / (n + 1))


def test_the_bias_of_sigmoid_counts_the_keys_that_each_row_may_see() -> None:
    q, k, v = inputs(n=5, m=5)
    s = q @ k.mT / 2
    count = torch.arange(1, 6, dtype=torch.float64)[:, None]
    expected = (torch.sigmoid(s - count.log()) * torch.ones(5, 5).tril()).detach()
    assert_close(attend(q, k, v, align="sigmoid", over=Causal()).map.weights(), expected)
    for backend in ("reference", "chunked"):
        out = attend(q, k, v, align="sigmoid", over=Causal(), backend=backend).out
        assert_close(out.detach(), expected @ v.detach())


def test_with_a_fixed_bias_another_key_does_not_change_the_weights_of_sigmoid_and_without_it_does() -> None:
    q, k, v = inputs()
    fixed, free = Sigmoid(bias=-1.0), Sigmoid()
    fewer = k[:, :, :4], v[:, :, :4]
    assert_close(attend(q, k, v, align=fixed).map.weights()[..., :4], attend(q, *fewer, align=fixed).map.weights())
    change = attend(q, k, v, align=free).map.weights()[..., :4] - attend(q, *fewer, align=free).map.weights()
    assert change.abs().amax() > 0.01


def test_tau_of_sigmoid_is_the_negative_bias() -> None:
    q, k, v = inputs()
    assert (attend(q, k, v, align=Sigmoid(bias=-0.7)).map.tau == 0.7).all()
    assert_close(attend(q, k, v, align=Sigmoid()).map.tau, torch.full((2, 2, 3), math.log(5), dtype=torch.float64))


def test_relu_is_the_positive_part_over_the_number_of_keys() -> None:
    q, k, v = inputs()
    s = (q @ k.mT / 2).clamp_min(0)
    assert_close(attend(q, k, v, align="relu").map.weights(), (s / 5).detach())
    padded = attend(q, k, v, align="relu", over=Padding(torch.tensor([5, 2]))).map.weights()
    assert_close(padded[1], (s[1] / 2 * torch.tensor([1, 1, 0, 0, 0])).detach())


def test_a_row_whose_scores_are_all_negative_is_dead_under_relu() -> None:
    q, k, v = inputs()
    q, k = (x.detach().abs().requires_grad_() for x in (q, k))
    out = attend(-q, k, v, align=ReLU()).out
    assert (out == 0).all()
    assert all((x == 0).all() for x in torch.autograd.grad(out.sum(), [q, k, v]))


def test_uniform_is_softmax_of_constant_scores_and_the_output_is_the_mean_of_the_allowed_values() -> None:
    q, k, v = inputs()
    keep = torch.rand(3, 5, generator=torch.Generator().manual_seed(0)) > 0.4
    out, amap = attend(q, k, v, align="uniform", over=Mask(keep=keep))
    constant = attend(0 * q, k, v, align=Softmax(), over=Mask(keep=keep))
    assert_close(amap.weights(), constant.map.weights())
    for i in range(3):
        assert_close(out[:, :, i], v[:, :, keep[i]].mean(2))
    assert_close(amap.tau, keep.sum(-1).double().log().expand(2, 2, 3))


def test_uniform_needs_no_score_and_gives_it_no_gradient() -> None:
    q, k, v = inputs()
    found = torch.autograd.grad(attend(q, k, v, align="uniform").out.square().sum(), [q, k, v], allow_unused=True)
    assert all(x is None or (x == 0).all() for x in found[:2])
    assert (found[2] != 0).any()


@pytest.mark.parametrize("align", [Softmax(), TopK(3), Gumbel()])
def test_closed_pairs_get_nothing_however_low_the_open_scores_are(align: Alignment) -> None:
    lowest = torch.finfo(torch.float32).min
    s = torch.full((2, 4), lowest, requires_grad=True)
    keep = torch.tensor([[True, True, False, False], [False, False, False, False]])
    w = align(s, keep)
    assert_close(w, torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    (grad,) = torch.autograd.grad(w[:, 0].sum(), s)
    assert grad.isfinite().all()
