"""Scores from likeness (taxonomy 2.1 g, h, k and trilinear)."""

import math

import pytest
import torch
import torch.nn.functional as F
from tests.core.mechanisms import built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Causal, Content, Cosine, Gaussian, Laplace, LinearKernel, Mask, Padding, attend, plan
from regard.core.scores.similarity import squared


def test_cosine_is_the_product_over_both_lengths_and_ignores_the_length_of_a_key() -> None:
    q, k, v = inputs()
    lengths = q.norm(dim=-1)[..., :, None] * k.norm(dim=-1)[..., None, :]
    assert_close(Cosine(sharpness=3.0)(q, k), 3 * (q @ k.mT) / lengths)
    stretched = k * torch.tensor([0.01, 0.5, 1.0, 7.0, 1e4])[:, None]
    assert_close(attend(q, stretched, v, "cosine").out, attend(q, k, v, "cosine").out)


def test_cosine_of_a_zero_vector_is_zero_with_a_finite_gradient() -> None:
    q, k, v = inputs()
    k = (k.detach() * torch.tensor([0.0, 1, 1, 1, 1])[:, None]).requires_grad_()
    assert (Cosine()(q, k)[..., 0] == 0).all()
    assert torch.autograd.grad(attend(q, k, v, "cosine").out.sum(), k)[0].isfinite().all()


def test_norms_are_taken_in_fp32() -> None:
    x = torch.full((1, 1, 2, 64), 300.0, dtype=torch.float16)  # the squared norm overflows fp16
    assert_close(Cosine()(x, x), torch.ones(1, 1, 2, 2, dtype=torch.float16), atol=2e-3, rtol=0)


def test_gaussian_is_the_negative_squared_distance_over_twice_the_squared_width() -> None:
    q, k, v = inputs()
    squared = (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)
    assert_close(Gaussian(1.5)(q, k), -squared / (2 * 1.5**2))
    kernel = torch.exp(-squared / (2 * 1.5**2))
    assert_close(attend(q, k, v, Gaussian(1.5)).map.weights(), kernel / kernel.sum(-1, keepdim=True))


def test_a_learned_width_is_a_softplus_that_starts_where_it_is_told_even_far_out() -> None:
    q, k, v = inputs()
    for width in (0.01, 0.7, 30.0, 1000.0):
        score = Gaussian(width, learned=True, heads=2).double()
        assert_close(F.softplus(score.raw).tolist(), [width] * 2, rtol=1e-4, atol=0)
    learned, fixed = (attend(q, k, v, Gaussian(0.7, learned=x)).out for x in (True, False))
    assert_close(learned, fixed, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("score", [Gaussian(), Laplace()])
def test_a_distance_ignores_moving_queries_and_keys_together_and_dot_does_not(score: Gaussian | Laplace) -> None:
    q, k, v = inputs()
    assert_close(attend(q + 3, k + 3, v, score).out, attend(q, k, v, score).out)
    assert (attend(q + 3, k + 3, v, "dot").out - attend(q, k, v, "dot").out).abs().amax() > 0.01


def test_with_keys_of_equal_norm_gaussian_is_softmax_of_dot() -> None:
    q, k, v = inputs()
    k = 2 * k / k.norm(dim=-1, keepdim=True)
    assert_close(attend(q, k, v, "gaussian").map.weights(), attend(q, k, v, "dot").map.weights())


def test_a_squared_distance_has_a_finite_gradient_where_query_and_key_meet() -> None:
    x = inputs(n=4, m=4)[0]
    out = attend(x, x, x.detach(), "gaussian").out
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()


def test_the_exponential_kernel_is_scaled_dot() -> None:
    q, k, v = inputs()
    kernel = torch.exp((q @ k.mT) / 2)
    assert_close(attend(q, k, v, "scaled_dot").map.weights(), kernel / kernel.sum(-1, keepdim=True))


def test_laplace_is_the_negative_sum_of_distances_along_the_axes() -> None:
    q, k, _ = inputs()
    assert_close(Laplace(2.0)(q, k), -(q[..., :, None, :] - k[..., None, :, :]).abs().sum(-1) / 2)


def test_a_far_dimension_costs_laplace_its_distance_and_gaussian_its_square() -> None:
    q, k = torch.zeros(2, 1, 1, 1, 2, dtype=torch.float64).unbind()
    near, far = k + torch.tensor([1.0, 0.0]), k + torch.tensor([10.0, 0.0])
    assert Laplace()(q, far).item() == 10 * Laplace()(q, near).item()
    assert Gaussian()(q, far).item() == 100 * Gaussian()(q, near).item()


def test_content_is_cosine_times_a_sharpness_that_the_query_says() -> None:
    q, k, _ = inputs()
    score = built("content")
    beta = F.softplus(torch.einsum("bhid,hd->bhi", q, score.weight) + score.bias[:, None])
    assert_close(score(q, k), beta[..., None] * Cosine()(q, k))
    assert_close(Content(4, sharpness=2.5).double()(q, k), 2.5 * Cosine()(q, k), rtol=1e-5, atol=1e-7)


def test_no_sharpness_is_uniform_and_a_large_one_finds_the_nearest_key() -> None:
    q, k, v = inputs()
    assert_close(attend(q, k, v, Content(sharpness=0.0)).out, attend(q, k, v, align="uniform").out)
    sharp = attend(q, k, v, Content(sharpness=1e5)).map.weights()
    assert_close(sharp, F.one_hot(Cosine()(q, k).argmax(-1), 5).double())


def test_trilinear_weighs_query_key_and_their_product() -> None:
    q, k, _ = inputs()
    score = built("trilinear")
    a, b, c = score.weights
    s = torch.einsum("bhid,hd->bhi", q, a)[..., None] + torch.einsum("bhjd,hd->bhj", k, b)[..., None, :]
    assert_close(score(q, k), s + torch.einsum("bhid,bhjd,hd->bhij", q, k, c))


def test_under_softmax_trilinear_does_not_depend_on_the_weight_of_the_query_and_under_sigmoid_it_does() -> None:
    q, k, v = inputs()
    score, other = built("trilinear"), built("trilinear")
    with torch.no_grad():
        other.weights[0].add_(1.0)
    assert_close(attend(q, k, v, score).out, attend(q, k, v, other).out)
    assert (attend(q, k, v, score, "sigmoid").out - attend(q, k, v, other, "sigmoid").out).abs().amax() > 1e-3


def test_sigmoid_keeps_the_part_of_a_gaussian_that_softmax_drops() -> None:
    q, k, v = inputs()
    s = -(q[..., :, None, :] - k[..., None, :, :]).square().sum(-1) / 2
    assert_close(attend(q, k, v, "gaussian", "sigmoid").map.weights(), torch.sigmoid(s - math.log(5)))


def test_the_bias_of_a_key_stays_in_fp32() -> None:
    q, k, v = (x.detach().bfloat16() for x in inputs())
    assert plan(q, k, v, "gaussian").problem.score.key_bias.dtype == torch.float32
    assert plan(q, k, v, "trilinear").problem.score.key_bias.dtype == torch.float32


def linear(q: Tensor, k: Tensor, v: Tensor, valid: Tensor) -> Tensor:
    """Katharopoulos' associative form, a query at a time: phi(q_i) S_i / phi(q_i) . z_i over its valid keys."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    rows = []
    for i in range(q.shape[-2]):
        kept = k * valid[..., i, :, None]
        memory, norm = torch.einsum("bhmd,bhme->bhde", kept, v), kept.sum(-2)
        total = torch.einsum("bhd,bhd->bh", q[:, :, i], norm)[..., None]
        rows.append(torch.einsum("bhd,bhde->bhe", q[:, :, i], memory) / total.clamp_min(1e-300))
    return torch.stack(rows, -2)


@pytest.mark.parametrize("backend", ["linear", "chunked", "reference"])
def test_the_associative_form_of_a_linear_kernel_equals_the_form_with_all_pairs(backend: str) -> None:
    q, k, v = inputs(n=5, m=5)
    valid = torch.arange(5) < torch.tensor([5, 3])[:, None]
    for over, keep in (
        (None, torch.ones(2, 1, 5, 5)),
        (Padding(torch.tensor([5, 3])), valid[:, None, None].expand(2, 1, 5, 5)),
        (Causal(), torch.ones(2, 1, 5, 5).tril()),
    ):
        assert_close(attend(q, k, v, "linear_kernel", over=over, backend=backend).out, linear(q, k, v, keep))


def test_a_causal_linear_kernel_is_exact_across_its_blocks() -> None:
    q, k, v = inputs(n=300, m=300, batch=1, heads=1)
    keep = torch.ones(1, 1, 300, 300).tril()
    assert_close(attend(q, k, v, "linear_kernel", over=Causal(), backend="linear").out, linear(q, k, v, keep))


@pytest.mark.parametrize("backend", ["linear", "chunked", "reference"])
def test_a_linear_kernel_without_keys_or_with_an_underflow_gives_zero(backend: str) -> None:
    q, k, v = inputs()
    assert (attend(q, k, v, "linear_kernel", over=Padding(torch.tensor([0, 0])), backend=backend).out == 0).all()
    low = (q.detach() * 0 - 800).requires_grad_()  # phi(q) = 0 in fp64
    out = attend(low, k, v, "linear_kernel", backend=backend).out
    assert (out == 0).all()
    assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), [low, k, v]))


def test_a_pair_mask_of_a_linear_kernel_is_left_to_backends_that_form_weights() -> None:
    q, k, v = inputs()
    keep = torch.rand(3, 5, generator=torch.Generator().manual_seed(0)) > 0.4
    assert_close(attend(q, k, v, LinearKernel(), over=Mask(keep=keep)).out, linear(q, k, v, keep.expand(2, 1, 3, 5)))


def test_squares_of_sixteen_bits_are_those_of_fp32_with_their_gradients() -> None:
    """Of any order, forward too, times any number; a vector of zeros among them."""

    def thrice(x: torch.Tensor) -> torch.Tensor:
        return squared(x, 3.0)

    x = torch.randn(3, 4, 40).bfloat16()
    x[0, 0] = 0.0
    pull = torch.randn(3, 4)
    true = x.double().requires_grad_()
    grad = torch.autograd.grad(3 * true.square().sum(-1), true, pull.double())[0]
    mine = x.clone().requires_grad_()
    out = thrice(mine)
    assert out.dtype == torch.float32
    assert_close(out.double(), 3 * true.square().sum(-1), rtol=1e-6, atol=0)
    (first,) = torch.autograd.grad(out, mine, pull, create_graph=True)
    assert_close(first, grad.bfloat16())
    (second,) = torch.autograd.grad(first.float().sum(), mine)
    assert_close(second, (6 * pull)[..., None].expand(x.shape).bfloat16())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        along = torch.autograd.forward_ad.unpack_dual(thrice(dual)).tangent
    assert_close(along, 6 * x.float().sum(-1), rtol=1e-5, atol=3e-4)
    assert_close(torch.func.vmap(thrice)(x), out.detach(), rtol=1e-6, atol=0)
    assert_close(torch.func.grad(lambda x: (thrice(x) * pull).sum())(x), first.detach())
    assert_close(torch.func.jvp(thrice, (x,), (torch.ones_like(x),))[1], along)
