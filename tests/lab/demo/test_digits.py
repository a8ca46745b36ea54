"""What the demo says about digits follows from what it measured."""

import pytest
import torch
from scipy.stats import ttest_rel
from torch.testing import assert_close

from regard import Mask
from regard.lab.demo.digits import Digits, PatchReader, query_weights, trained
from regard.lab.demo.digits_section import beside, interpretation
from regard.lab.demo.spread import Spread, verdict


@pytest.fixture(scope="module")
def data() -> Digits:
    return Digits.load()


def test_patches_are_the_image_cut_in_sixteen(data):
    assert data.patches.shape == (len(data.images), 16, 4)
    assert_close(data.patches[7, 5].reshape(2, 2), data.images[7, 2:4, 2:4])


def test_splits_cover_every_image_once(data):
    train, test = data.split(3)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(data.labels)))


def test_equal_weights_without_a_perceptron_forget_where_a_patch_was(data):
    torch.manual_seed(0)
    patches, order = data.patches[:8], torch.randperm(16)
    for align, forgets in (("uniform", True), ("softmax", False)):
        reader = PatchReader(align, perceptron=False)
        with torch.no_grad():
            change = (reader(patches)[0] - reader(patches[:, order])[0]).abs().max()
        assert (change < 1e-5) == forgets


def test_equal_weights_light_every_patch_alike(data):
    weights, _ = query_weights(PatchReader("uniform", perceptron=True), data, torch.arange(4))
    assert_close(weights, torch.full((4, 16), 1 / 16))


def test_a_closed_patch_has_no_influence(data):
    reader = PatchReader("softmax", perceptron=True)
    keep = torch.ones(4, 1, 1, 16, dtype=torch.bool)
    keep[..., 5] = False
    changed = data.patches[:4].clone()
    changed[:, 5] = 7.0
    with torch.no_grad():
        assert_close(reader(changed, Mask(keep=keep))[0], reader(data.patches[:4], Mask(keep=keep))[0])


def test_the_same_seed_trains_the_same_reader(data):
    train, test = data.split(0)
    first, second = (query_weights(trained(data, train[:128], 0, "softmax", False, 1), data, test)[0] for _ in range(2))
    assert_close(first, second)


def test_the_interval_is_that_of_the_paired_t_test():
    one, other = Spread((0.9, 0.8, 0.95, 0.85, 0.9)), Spread((0.7, 0.75, 0.8, 0.8, 0.6))
    expected = ttest_rel(one.values, other.values).confidence_interval(0.95)
    assert_close((one - other).interval, (float(expected.low), float(expected.high)))


@pytest.mark.parametrize(
    ("attention", "uniform", "says"),
    [
        ((0.9, 0.91), (0.2, 0.21), "Attention is worth +70.0 points"),
        ((0.2, 0.21), (0.9, 0.91), "Uniform weights are better"),
        ((0.9, 0.8), (0.8, 0.9), "No significant difference"),
        ((0.9,), (0.2,), "One seed"),
    ],
)
def test_the_verdict_follows_the_interval(attention, uniform, says):
    assert verdict(Spread(attention), Spread(uniform)).startswith(says)


def test_a_result_below_the_trivial_baseline_is_called_so():
    assert "below the trivial baseline" in beside(Spread((0.97,)), Spread((0.98,)))
    assert "below" not in beside(Spread((0.99,)), Spread((0.98,)))


@pytest.mark.parametrize(
    ("looked", "ink", "any_four", "says"),
    [
        ((0.2, 0.21), (0.4, 0.41), (0.7, 0.71), "beyond where the ink is"),
        ((0.4, 0.41), (0.4, 0.41), (0.7, 0.71), "may show no more than where the ink is"),
        ((0.7, 0.71), (0.4, 0.41), (0.7, 0.71), "do not show what the prediction depends on"),
    ],
)
def test_the_pictures_are_believed_as_far_as_hiding_allows(looked, ink, any_four, says):
    hidden = {"four of largest weight": looked, "four with most ink": ink, "four at random": any_four}
    assert says in interpretation({way: Spread(values) for way, values in hidden.items()})
