"""Intervals hold the truth as often as they say, repeat bit for bit, and are left out where there is no spread."""

import numpy as np
import pytest

from regard.judging import estimate
from regard.judging.statistics.intervals import median
from regard.judging.statistics.means import betting_interval, betting_p, mean_interval, mean_p
from regard.judging.statistics.shares import binomial_p, clopper_pearson, median_interval

stats = pytest.importorskip("scipy.stats")


def held(draw, truth, *, trials=400, **options):
    """How often the interval of `estimate` holds the truth; no interval does not count."""
    ends = [estimate(draw(), resamples=400, seed=trial, **options).interval for trial in range(trials)]
    some = np.array([one for one in ends if one is not None])
    return float(((some[:, 0] <= truth) & (truth <= some[:, 1])).mean())


def test_the_same_seed_gives_the_same_bits_and_another_gives_others():
    values = np.random.default_rng(0).exponential(size=20)
    first = estimate(values, seed=5)
    assert first == estimate(values.copy(), seed=5)
    assert first.interval != estimate(values, seed=6).interval
    assert first.interval != estimate(values, scale=(0.0, 99.0), seed=5).interval


@pytest.mark.parametrize("n", [1, 2, 8, 30])
def test_a_share_has_scipys_exact_interval_and_holds_at_every_p(n):
    ends = [clopper_pearson(k, n) for k in range(n + 1)]
    for k, (low, high) in enumerate(ends):
        theirs = stats.binomtest(k, n).proportion_ci(method="exact")
        assert (low, high) == pytest.approx((theirs.low, theirs.high))
        tails = [stats.binomtest(k, n, 0.3, alternative=side).pvalue for side in ("less", "greater")]
        assert binomial_p(k, n, 0.3) == pytest.approx(min(1.0, 2 * min(tails)))
    for p in np.linspace(0.01, 0.99, 99):  # by enumeration
        chance = stats.binom.pmf(np.arange(n + 1), n, p)
        assert sum(c for c, (low, high) in zip(chance, ends, strict=True) if low <= p <= high) >= 0.95
    assert estimate([1.0] * n, scale="share").interval == pytest.approx(ends[n])


def test_a_share_and_its_p_say_the_same():
    for n in range(1, 25):
        for k in range(n + 1):
            low, high = clopper_pearson(k, n)
            for null in (0.1, 0.5, 0.8):
                assert (binomial_p(k, n, null) <= 0.05) == (null < low or null > high)
    with pytest.raises(ValueError, match="0 and 1"):
        estimate([0.5, 1.0], scale="share")


DRAWS = {
    "normal": (lambda draw, n: draw.normal(size=n), 0.0),
    "uniform": (lambda draw, n: draw.random(n), 0.5),
    "t3": (lambda draw, n: draw.standard_t(3, size=n), 0.0),
    "exponential": (lambda draw, n: draw.exponential(size=n), 1.0),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_mean_of_eight_instances_is_held(name):
    draw, truth = DRAWS[name]
    random = np.random.default_rng(3)
    assert held(lambda: draw(random, 8), truth) >= 0.93 - 0.025  # two deviations of 400 trials


def test_rare_values_between_bounds_are_held_by_a_bet_where_t_is_not():
    random = np.random.default_rng(4)

    def rare():
        return (random.random(12) < 0.1) * random.random(12)

    assert held(rare, 0.05, scale=(0.0, 1.0)) >= 0.95
    ends = [mean_interval(rare(), resamples=400) for _ in range(400)]
    assert np.mean([one is not None and one[0] <= 0.05 <= one[1] for one in ends]) < 0.8


def test_a_bet_refuses_values_out_of_bounds_and_agrees_with_its_p():
    values = np.random.default_rng(5).beta(2, 5, size=25)
    low, high = betting_interval(values, 0.0, 1.0)
    assert 0 <= low < values.mean() < high <= 1
    assert betting_p(values, 0.0, 1.0, low - 0.01) <= 0.05 < betting_p(values, 0.0, 1.0, values.mean())
    assert betting_interval(10 * values - 3, -3.0, 7.0) == pytest.approx((10 * low - 3, 10 * high - 3))
    with pytest.raises(ValueError, match="within the bounds"):
        estimate([0.5, 1.5, 0.2], scale=(0.0, 1.0))


def test_the_interval_of_a_mean_is_never_within_students():
    for seed in range(20):
        values = np.random.default_rng(seed).exponential(size=10)
        theirs = stats.t.interval(0.95, 9, loc=values.mean(), scale=stats.sem(values))
        low, high = mean_interval(values, resamples=400)
        assert low <= theirs[0] + 1e-12 and high >= theirs[1] - 1e-12
        assert mean_p(values, 0.9) >= stats.ttest_1samp(values, 0.9).pvalue - 1e-12
    many = np.random.default_rng(0).normal(size=800)
    assert mean_p(many, 0.05) == pytest.approx(stats.ttest_1samp(many, 0.05).pvalue)


@pytest.mark.parametrize("n", [5, 6, 9, 20, 61])
def test_a_median_lies_between_two_values_by_the_sign_test(n):
    values = np.random.default_rng(n).normal(size=n)
    ends = median_interval(values)
    assert (ends is None) == (n < 6)
    if ends is not None:
        inside = [stats.binomtest(int((values > x).sum()), n).pvalue > 0.05 for x in np.sort(values)]
        between = np.sort(values)[[at for at, one in enumerate(inside) if one]]
        assert ends[0] <= between.min() and ends[1] >= between.max()
        assert 1 - 2 * stats.binom.cdf(np.searchsorted(np.sort(values), ends[0]), n, 0.5) >= 0.95
    assert estimate(values, median).interval == ends


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_over_seeds_the_interval_is_students_of_the_seeds(seeds):
    values = np.random.default_rng(seeds).normal(size=(seeds, 1))
    theirs = stats.t.interval(0.95, seeds - 1, loc=values.mean(), scale=stats.sem(values[:, 0]))
    assert estimate(values, seeds=True).interval == pytest.approx(theirs)


def test_few_seeds_hold_the_truth_where_seeds_and_where_instances_dominate():
    random = np.random.default_rng(8)
    for by_seed, by_instance in ((1.0, 0.2), (0.2, 1.0), (0.5, 0.5)):

        def table(a=by_seed, b=by_instance):
            return a * random.normal(size=(3, 1)) + b * random.normal(size=(1, 20)) + 0.3 * random.normal(size=(3, 20))

        assert held(table, 0.0, seeds=True, trials=300) >= 0.93


def test_a_corpus_figure_over_seeds_is_held_too():
    random = np.random.default_rng(9)

    def counts():
        right = random.binomial(20, random.beta(6, 4, size=(4, 1)), size=(4, 30))
        return np.stack([right, np.full_like(right, 20)], -1)

    def ratio(x):
        return x[:, 0].sum() / x[:, 1].sum()

    assert held(counts, 0.6, seeds=True, statistic=ratio, trials=60) >= 0.9


def test_a_resample_within_classes_loses_no_rare_class():
    said, wanted = np.zeros(60), np.array([1.0] + [0.0] * 59)
    table = np.stack([said, wanted], 1)

    def macro(x):
        return float(np.mean([(x[x[:, 1] == one, 0] == one).mean() for one in np.unique(x[:, 1])]))

    assert macro(table) == 0.5
    assert estimate(table, macro).interval[1] == 1.0  # where the class is lost, a constant answer is always right
    assert estimate(table, macro, strata=wanted).interval is None  # and within classes nothing varies


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
    low, high = estimate([[0.1], [0.5]], seeds=True).interval  # two seeds of one instance do tell a spread
    assert low < 0.1 < 0.5 < high


def test_what_is_undefined_is_left_out_and_counted():
    found = estimate([1.0, np.nan, 3.0])
    assert (found.value, found.n, found.undefined) == (2.0, 2, 1)
    partly = estimate([[1.0, np.nan], [np.nan, np.nan]], seeds=True)
    assert (partly.value, partly.n, partly.undefined) == (1.0, 1, 1)


@pytest.mark.parametrize("values", [[], [np.nan, np.nan]], ids=["none", "undefined"])
def test_nothing_measured_is_undefined(values):
    found = estimate(values)
    assert (found.value, found.interval, found.n) == (None, None, 0)


def test_what_is_infinite_has_no_interval():
    assert estimate([1.0, np.inf, 2.0]).interval is None
    assert estimate([1.0, np.inf, 2.0]).value == np.inf


def test_equal_instances_tell_no_spread_unless_there_are_bounds():
    assert estimate([0.25] * 40).interval is None
    low, high = estimate([0.25] * 40, scale=(0.0, 1.0)).interval
    assert low < 0.25 < high


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (1.0, {}),
        ([1.0], {"seeds": True}),
        ([1.0, 2.0], {"level": 95}),
        ([1.0, 2.0], {"resamples": 0}),
        ([1.0], {"scale": "normal"}),
        ([1.0], {"scale": (1.0, 0.0)}),
    ],
    ids=["number", "no-seeds", "level", "resamples", "scale", "bounds"],
)
def test_bad_input_is_refused(values, options):
    with pytest.raises(ValueError, match="expected"):
        estimate(values, **options)
