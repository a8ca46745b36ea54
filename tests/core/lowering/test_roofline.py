"""The least time of a plan, against numbers worked by hand."""

import pytest
import torch

from regard import Causal, Window, plan
from regard.core.lowering.roofline import RATES, backward_bound, bound, open_pairs, rates_of
from regard.core.scores import Additive, Dot
from regard.core.structures import Full

H200 = RATES["H200"]
P = 8 * 4096 * 4096


def made(score, align="softmax", over=None, dtype=torch.bfloat16):
    q = torch.empty(1, 8, 4096, 64, dtype=dtype, device="meta")
    return plan(q, q, q, score, align, over)


@pytest.mark.parametrize(
    ("score", "align", "seconds", "by"),
    [
        ("scaled_dot", "softmax", 2 * P * 128 / 7.9e14, "products"),
        (Additive(), "softmax", P * 65 / 2 / 4.18e12, "special functions"),
        (Additive(activation="relu"), "softmax", 2 * P * 64 / 3.35e13, "simple operations"),
        ("scaled_dot", "entmax15", 2 * P * 192 / 7.9e14, "products"),
        (Dot(features=True), "softmax", P * 64 / 4.18e12, "special functions"),
        (Additive(features=True), "softmax", 2 * P * 64 / 4.18e12, "special functions"),
    ],
    ids=["dot", "tanh", "relu", "entmax", "by feature", "tanh by feature"],
)
def test_the_unit_that_limits_and_its_time(score, align, seconds, by):
    found = bound(made(score, align), H200)
    assert found.by == by
    assert found.seconds == pytest.approx(seconds, rel=0.02)


@pytest.mark.parametrize(
    ("score", "seconds", "by"),
    [
        ("scaled_dot", 5 * 2 * P * 64 / 7.9e14, "products"),
        (Additive(), 7 * P * 64 / 3.35e13, "simple operations"),
        (Additive(activation="relu"), 5 * P * 64 / 3.35e13, "simple operations"),
    ],
    ids=["dot", "tanh", "relu"],
)
def test_a_backward_does_five_products_or_what_its_units_need(score, seconds, by):
    found = backward_bound(made(score), H200)
    assert found.by == by
    assert found.seconds == pytest.approx(seconds)


def test_the_backward_of_sparse_weights_depends_on_the_numbers():
    assert backward_bound(made("scaled_dot", "entmax15"), H200) is None
    assert made("scaled_dot").backward_bound is None  # a device that is not known


def test_causality_halves_and_a_window_leaves_little():
    whole, half = (bound(made("scaled_dot", over=over), H200).seconds for over in (None, Causal()))
    assert half / whole == pytest.approx(0.5, abs=1e-3)
    assert open_pairs(Causal("end") & Window(2, 1, align="end"), 3, 7) == 3 + 3 + 3
    assert open_pairs(Window(4, -1), 5, 5) == 0 + 1 + 2 + 3 + 4
    assert open_pairs(Full(), 3, 7) == 21
    assert open_pairs(Causal("end"), 4, 2) == 0 + 0 + 1 + 2


def test_full_precision_has_no_tensor_cores():
    half, full = (bound(made("scaled_dot", dtype=kind), H200).seconds for kind in (torch.bfloat16, torch.float32))
    assert full / half == pytest.approx(7.9e14 / 6.7e13)


def test_one_query_is_bound_by_memory():
    q, k = torch.empty(1, 8, 1, 64), torch.empty(1, 8, 4096, 64)
    assert bound(plan(q, k, k), H200).by == "memory"


def test_a_device_that_is_not_known_has_no_bound():
    assert rates_of(torch.device("cpu")) is None
    assert plan(*[torch.empty(1, 1, 3, 4)] * 3).bound is None
