"""Dot and scaled dot (taxonomy 2.1 b, c)."""

import math

import pytest
import torch
from tests.core.mechanisms import inputs
from torch.testing import assert_close

from regard import Dot, ScaledDot, attend


def test_dot_is_the_sum_of_products() -> None:
    q, k, _ = (x[0, 0].tolist() for x in inputs())
    expected = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in k] for x in q]
    assert_close(Dot()(*(torch.tensor(x, dtype=torch.float64) for x in (q, k))).tolist(), expected)


def test_scaled_dot_is_dot_of_the_query_over_the_root_of_its_width() -> None:
    q, k, v = inputs()
    assert_close(attend(q, k, v, "scaled_dot").out, attend(q / 2, k, v, "dot").out)


def test_the_scale_is_that_of_one_head_not_of_all() -> None:
    q, k, _ = inputs(heads=8)
    assert_close(ScaledDot()(q, k), Dot()(q, k) / math.sqrt(4))


def test_a_scale_of_ones_own_replaces_the_root() -> None:
    q, k, v = inputs()
    assert_close(attend(q, k, v, ScaledDot(scale=0.3)).out, attend(0.3 * q, k, v, Dot()).out)


@pytest.mark.parametrize("width", [4, 64, 256])
def test_for_unit_variance_entries_dot_varies_by_the_width_and_scaled_dot_by_one(width: int) -> None:
    draw = torch.Generator().manual_seed(width)
    q, k = torch.randn(2, 20_000, 1, width, generator=draw).unbind()
    for score, variance in ((Dot(), float(width)), (ScaledDot(), 1.0)):
        found = score(q, k.view_as(q)).flatten()
        error = variance * math.sqrt((2 + 6 / width) / found.numel())  # of a sample variance; kurtosis 3 + 6 / width
        assert abs(found.var().item() - variance) < 4 * error


def test_doubling_a_key_doubles_its_score_and_a_common_shift_changes_dot() -> None:
    q, k, _ = inputs()
    assert_close(Dot()(q, 2 * k), 2 * Dot()(q, k))
    assert (torch.softmax(Dot()(q + 1, k + 1), -1) - torch.softmax(Dot()(q, k), -1)).abs().amax() > 0.01


@pytest.mark.parametrize("score", [Dot(features=True), ScaledDot(features=True)])
def test_feature_wise_dot_scores_each_coordinate_by_itself(score: Dot) -> None:
    q, k, v = inputs()
    s = score(q, k)
    for d in range(4):
        assert_close(s[:, :, d], q[..., :, None, d] * k[..., None, :, d] * score.scale(q))
    assert_close(attend(q, k, v, score).map.weights(), torch.softmax(s, -1))
