"""Bilinear scores (taxonomy 2.1 d, e, f)."""

import math

import torch
from tests.core.mechanisms import built, inputs
from torch.testing import assert_close

from regard import ActivatedGeneral, BiasedGeneral, Dot, General, attend


def test_general_is_the_key_times_the_matrix_times_the_query() -> None:
    q, k = inputs(width=3)[0], inputs()[1]
    score = General(3, 4, heads=2).double()
    s = score(q, k)
    for b, h, i, j in [(0, 0, 0, 0), (1, 0, 2, 4), (1, 1, 1, 3)]:
        expected = sum(k[b, h, j, x] * score.matrix[h, x, y] * q[b, h, i, y] for x in range(4) for y in range(3))
        assert_close(s[b, h, i, j], expected)


def test_the_identity_matrix_gives_dot() -> None:
    q, k, v = inputs()
    score = General(4).double()
    with torch.no_grad():
        score.matrix.copy_(torch.eye(4)[None])
    assert_close(attend(q, k, v, score).out, attend(q, k, v, "dot").out)
    assert_close(attend(q, k, v, "general").out, attend(q, k, v, "dot").out)


def test_a_matrix_of_low_rank_gives_dot_of_projected_inputs() -> None:
    q, k, _ = inputs()
    a, b = torch.randn(2, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind()
    score = General(4).double()
    with torch.no_grad():
        score.matrix.copy_(a.T @ b)
    assert_close(score(q, k), Dot()(q @ b.T, k @ a.T))


def test_general_with_features_has_a_matrix_for_each() -> None:
    q, k, v = inputs()
    score = General(4, 4, heads=2, features=4).double()
    s = torch.einsum("bhjx,hfxy,bhiy->bhfij", k, score.matrix, q)
    assert_close(score(q, k), s)
    assert_close(attend(q, k, v, score).map.weights(), torch.softmax(s, -1))


def test_the_bias_of_biased_general_belongs_to_the_key_and_changes_the_weights() -> None:
    q, k, v = inputs()
    score = built("biased_general")
    biased = attend(q, k, v, score).map.weights()
    s = torch.einsum("bhjx,bhix->bhij", k, torch.einsum("hxy,bhiy->bhix", score.matrix, q) + score.bias[:, None])
    assert_close(biased, torch.softmax(s, -1))
    with torch.no_grad():
        score.bias.zero_()
    assert (attend(q, k, v, score).map.weights() - biased).abs().amax() > 0.01


def test_a_query_of_zero_leaves_the_prior_that_the_bias_learned() -> None:
    q, k, v = inputs()
    score = built("biased_general")
    weights = attend(0 * q, k, v, score).map.weights()
    prior = torch.softmax((k * score.bias[:, None]).sum(-1), -1)
    assert_close(weights, prior[:, :, None].expand_as(weights))


def test_with_a_matrix_of_zero_every_query_gets_the_weights_of_the_learned_bias() -> None:
    q, k, v = inputs()
    score = built("biased_general")
    with torch.no_grad():
        score.matrix.zero_()
    weights = attend(q, k, v, score).map.weights()
    assert_close(weights, weights[..., :1, :].expand_as(weights))


def test_activated_general_is_tanh_of_general_plus_a_number_a_head() -> None:
    q, k, _ = inputs()
    score = built("activated_general")
    inner = torch.einsum("bhjx,hxy,bhiy->bhij", k, score.matrix, q)
    assert_close(score(q, k), torch.tanh(inner + score.squash.bias[:, None, None]))


def test_the_bias_of_activated_general_cancels_with_an_identity_and_not_with_tanh() -> None:
    q, k, v = inputs()
    for activation, moves in (("identity", False), ("tanh", True)):
        score = ActivatedGeneral(4, activation=activation).double()
        before = attend(q, k, v, score).map.weights()
        with torch.no_grad():
            score.squash.bias.add_(1.0)
        change = (attend(q, k, v, score).map.weights() - before).abs().amax()
        assert (change > 0.01) if moves else (change < 1e-12)


def test_with_tanh_no_weight_exceeds_e_squared_times_another() -> None:
    q, k, v = (100 * x for x in inputs(m=9))
    weights = attend(q, k, v, ActivatedGeneral(4).double()).map.weights()
    assert (weights.amax(-1) / weights.amin(-1)).amax() <= math.e**2 * (1 + 1e-12)
    assert weights.amax() <= math.e**2 / (math.e**2 + 9 - 1)


def test_without_sizes_the_matrix_is_the_identity_and_there_is_no_bias() -> None:
    q, k, v = inputs()
    assert_close(attend(q, k, v, BiasedGeneral()).out, attend(q, k, v, "dot").out)
    assert_close(ActivatedGeneral()(q, k), torch.tanh(Dot()(q, k)))
