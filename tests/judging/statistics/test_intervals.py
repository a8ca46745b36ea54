"""Intervals hold the truth as often as they say, repeat bit for bit, and are left out where there is no spread."""

import numpy as np
import pytest

from regard.judging import estimate


def test_the_same_seed_gives_the_same_bits_and_another_gives_others():
    values = np.random.default_rng(0).normal(size=(3, 40))
    first = estimate(values, seeds=True, seed=5)
    assert first == estimate(values.copy(), seeds=True, seed=5)
    assert first.interval != estimate(values, seeds=True, seed=6).interval


def test_an_interval_over_instances_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(1).exponential(size=60)
    ours = estimate(values, resamples=3_000).interval
    theirs = stats.bootstrap((values,), np.mean, n_resamples=3_000, method="percentile", rng=0).confidence_interval
    assert np.allclose(ours, (theirs.low, theirs.high), atol=0.1 * values.std() / np.sqrt(60))


def test_an_interval_holds_the_truth_about_as_often_as_it_says():
    draw = np.random.default_rng(2)
    held = 0
    for trial in range(200):
        low, high = estimate(draw.normal(size=50), level=0.9, resamples=100, seed=trial).interval
        held += low <= 0 <= high
    assert 160 <= held <= 195  # 180 expected; four deviations either way


def test_seeds_and_instances_are_crossed():
    """Seeds that differ and instances that do not: the spread is that of the seeds, whatever the instances."""
    draw = np.random.default_rng(3)
    seeds = draw.normal(size=(8, 1))
    over_seeds = estimate(seeds + np.zeros((8, 500)), seeds=True)
    assert over_seeds.interval == pytest.approx(estimate(seeds, seeds=True).interval, abs=0.25)
    one_by_one = estimate((seeds + np.zeros((8, 500))).ravel())
    assert np.ptp(one_by_one.interval) < np.ptp(over_seeds.interval) / 10
    instances = draw.normal(size=50)
    shared = estimate(np.zeros((8, 1)) + instances, seeds=True)  # every seed errs alike: eight seeds are one
    assert np.ptp(shared.interval) == pytest.approx(np.ptp(estimate(instances).interval), rel=0.15)


def test_a_figure_of_a_corpus_is_a_statistic_of_counts():
    counts = np.array([[1, 2], [0, 4], [3, 3]])

    def ratio(x):
        return x[:, 0].sum() / x[:, 1].sum()

    found = estimate(counts, ratio, resamples=500)
    assert found.value == 4 / 9
    assert found.interval[0] == 0.0 and found.interval[1] == 1.0  # all draws of one instance occur among 500
    both = estimate(np.stack([counts, counts[:, ::-1]]), lambda x: x[:, 0].sum() / x.sum(), seeds=True)
    assert both.value == pytest.approx((4 / 13 + 9 / 13) / 2)  # one statistic a seed, then their mean


def test_one_instance_has_a_value_and_no_interval():
    assert (estimate([0.3]).value, estimate([0.3]).interval) == (0.3, None)
    assert estimate([0.3, np.nan, np.nan]).interval is None
    assert estimate([[0.1], [0.5]], seeds=True).interval == (0.1, 0.5)  # two seeds of one instance do tell a spread


def test_what_is_undefined_is_left_out_and_counted():
    found = estimate([1.0, np.nan, 3.0])
    assert (found.value, found.n, found.undefined) == (2.0, 2, 1)
    assert 1.0 <= found.interval[0] <= found.interval[1] <= 3.0
    partly = estimate([[1.0, np.nan], [np.nan, np.nan]], seeds=True)
    assert (partly.value, partly.n, partly.undefined) == (1.0, 1, 1)


@pytest.mark.parametrize("values", [[], [np.nan, np.nan]], ids=["none", "undefined"])
def test_nothing_measured_is_undefined(values):
    found = estimate(values)
    assert (found.value, found.interval, found.n) == (None, None, 0)


def test_equal_instances_have_an_interval_of_no_width():
    assert estimate([0.25] * 5).interval == (0.25, 0.25)


@pytest.mark.parametrize(
    ("values", "options"),
    [(1.0, {}), ([1.0], {"seeds": True}), ([1.0, 2.0], {"level": 95}), ([1.0, 2.0], {"resamples": 0})],
    ids=["number", "no-seeds", "level", "resamples"],
)
def test_bad_input_is_refused(values, options):
    with pytest.raises(ValueError, match="expected"):
        estimate(values, **options)
