"""Distances between distributions."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard.judging.statistics.divergence import LARGEST, jsd, kl, over_units, tvd


def drawn(*shape):
    return torch.rand(*shape, dtype=torch.float64).softmax(-1)


def test_kl_weighs_by_its_first_argument():
    p, q = torch.tensor([0.5, 0.5]).double(), torch.tensor([0.9, 0.1]).double()
    assert_close(kl(p, q), torch.tensor(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)).double())
    assert_close(kl(q, p), torch.tensor(0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)).double())
    assert abs(kl(p, q) - kl(q, p)) > 0.1


def test_kl_counts_no_weight_as_nothing_and_the_impossible_as_infinite():
    sure, even = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    assert_close(kl(sure, even), torch.tensor(math.log(2)))
    assert kl(even, sure) == math.inf


def test_divergences_are_those_of_scipy():
    distance = pytest.importorskip("scipy.spatial.distance").jensenshannon
    entropy = pytest.importorskip("scipy.stats").entropy
    p, q = drawn(7, 5), drawn(7, 5)
    assert_close(jsd(p, q), torch.from_numpy(distance(p.numpy(), q.numpy(), axis=-1) ** 2))
    assert_close(kl(p, q), torch.from_numpy(np.asarray(entropy(p.numpy(), q.numpy(), axis=-1))))


def test_the_largest_divergence_is_log_2_and_of_movement_1():
    p, q = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.3, 0.7])
    assert_close(jsd(p, q), torch.tensor(LARGEST))
    assert_close(tvd(p, q), torch.tensor(1.0))
    assert_close(jsd(q, p), jsd(p, q))


def test_of_two_classes_total_variation_is_how_far_one_moved():
    assert_close(tvd(torch.tensor([0.8, 0.2]), torch.tensor([0.3, 0.7])), torch.tensor(0.5))


def test_gradients_are_finite_where_weights_are_zero():
    weights = torch.tensor([0.4, 0.6, 0.0], requires_grad=True)
    jsd(weights, torch.tensor([0.5, 0.5, 0.0])).backward()
    assert weights.grad is not None and bool(weights.grad.isfinite().all())


def test_weights_over_units_forget_the_rest():
    weights, units = torch.tensor([[0.5, 0.1, 0.4], [1.0, 0.0, 0.0]]), torch.tensor([[False, True, True]] * 2)
    assert_close(over_units(weights, units), torch.tensor([[0.0, 0.2, 0.8], [0.0, 0.0, 0.0]]))
