"""Additive scores and those of graphs (taxonomy 2.1 a, m, n)."""

import math

import pytest
import torch
import torch.nn.functional as F
from tests.core.mechanisms import built, inputs
from torch.testing import assert_close

from regard import GAT, Additive, GATv2, attend

ACTIVATIONS = {
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "leaky_relu": lambda x: x if x > 0 else 0.2 * x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_additive_is_a_perceptron_of_one_hidden_layer_on_each_pair(activation: str) -> None:
    q, k = inputs(width=3)[0], inputs()[1]
    score = Additive(3, 4, 5, heads=2, activation=activation).double()
    with torch.no_grad():
        score.bias.normal_(generator=torch.Generator().manual_seed(0))
    s, act = score(q, k), ACTIVATIONS[activation]
    for b, h, i, j in [(0, 0, 0, 0), (1, 0, 2, 4), (1, 1, 1, 3)]:
        hidden = score.query[h] @ q[b, h, i] + score.key[h] @ k[b, h, j] + score.bias[h]
        expected = sum(v * act(x) for v, x in zip(score.v[h].tolist(), hidden.tolist(), strict=True))
        assert math.isclose(s[b, h, i, j].item(), expected, rel_tol=1e-9)


def test_the_split_form_equals_the_concatenated_form() -> None:
    q, k, _ = inputs()
    draw = torch.Generator().manual_seed(0)
    matrix, v, bias = (torch.randn(s, generator=draw, dtype=torch.float64) for s in ((5, 8), (5,), (5,)))
    pairs = torch.cat([q[..., :, None, :].expand(2, 2, 3, 5, 4), k[..., None, :, :].expand(2, 2, 3, 5, 4)], -1)
    concatenated = torch.tanh(pairs @ matrix.T + bias) @ v
    assert_close(Additive.from_concat(matrix, v, 4, bias)(q, k), concatenated)


def test_identity_activation_makes_the_query_irrelevant() -> None:
    q, k, v = inputs()
    weights = attend(q, k, v, Additive(4, activation="identity").double()).map.weights()
    assert_close(weights, weights[..., :1, :].expand_as(weights))


def test_without_sizes_the_matrices_are_the_identity_and_the_readout_is_even() -> None:
    q, k, v = inputs()
    s = torch.tanh(q[..., :, None, :] + k[..., None, :, :]).sum(-1) / 2
    assert_close(Additive()(q, k), s)
    assert_close(attend(q, k, v, "additive").map.weights(), torch.softmax(s, -1))
    assert_close(attend(q, k, v, "concat").out, attend(q, k, v, "additive").out)


def test_the_bias_stands_inside_the_activation() -> None:
    q, k, v = inputs()
    score = Additive(4).double()
    before = attend(q, k, v, score).map.weights()
    with torch.no_grad():
        score.bias.add_(1.0)
    assert (attend(q, k, v, score).map.weights() - before).abs().amax() > 1e-3  # outside, it would cancel


def test_gatv2_is_additive_with_leaky_relu_on_projected_inputs() -> None:
    q, k, _ = inputs()
    score = built("gatv2")
    expected = torch.einsum("bhijd,hd->bhij", F.leaky_relu(q[..., :, None, :] + k[..., None, :, :], 0.2), score.v)
    assert_close(score(q, k), expected)


def test_gat_adds_a_part_of_the_target_and_a_part_of_the_source_and_bends_the_sum() -> None:
    q, k, _ = inputs()
    score = built("gat")
    target = torch.einsum("bhid,hd->bhi", q, score.target)
    source = torch.einsum("bhjd,hd->bhj", k, score.source)
    assert_close(score(q, k), F.leaky_relu(target[..., :, None] + source[..., None, :], 0.2))


def test_gat_is_static_all_queries_rank_the_keys_alike() -> None:
    q, k, v = inputs(n=20, m=7)
    ranks = attend(q, k, v, built("gat")).map.weights().argsort(-1)
    assert (ranks == ranks[..., :1, :]).all()


def test_gatv2_is_dynamic_two_queries_may_rank_the_keys_differently() -> None:
    k = torch.eye(2, dtype=torch.float64)
    q = -10 * torch.eye(2, dtype=torch.float64)  # each query buries one coordinate under the bend
    weights = attend(q, k, k, GATv2()).map.weights()
    assert weights[0].argmax() == 1
    assert weights[1].argmax() == 0


def test_graph_scores_without_sizes_read_out_evenly() -> None:
    q, k, _ = inputs()
    assert_close(GATv2()(q, k), F.leaky_relu(q[..., :, None, :] + k[..., None, :, :], 0.2).sum(-1) / 2)
    assert_close(GAT()(q, k), F.leaky_relu(q.sum(-1)[..., :, None] / 2 + k.sum(-1)[..., None, :] / 2, 0.2))
