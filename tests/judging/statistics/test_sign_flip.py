"""The sign-flip test beside scipy's, Holm's correction by hand, and both over a thousand studies of nothing."""

import numpy as np
import pytest
from scipy import stats

from regard.judging.statistics.holm import holm
from regard.judging.statistics.sign_flip import seeds_for, sign_flip, smallest_p
from regard.studies.statistics import check_power, power, smallest_effect


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("seeds", [2, 5, 10])
def test_it_is_scipys_exact_permutation_test_of_samples(seeds):
    d = drawn(seeds, seed=seeds) + 0.4
    theirs = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    assert sign_flip(d) == pytest.approx(theirs.pvalue, abs=1e-12)


def test_equal_differences_make_it_the_sign_test_and_ranks_make_it_wilcoxons():
    d = np.array([1.0] * 8 + [-1.0] * 2)
    assert sign_flip(d) == pytest.approx(stats.binomtest(2, 10).pvalue)
    ranks = np.array([1.0, -2, 3, 4, 5, -6, 7, 8, 9])
    assert sign_flip(ranks) == pytest.approx(stats.wilcoxon(ranks, method="exact").pvalue)


def test_fishers_darwin_data_have_his_p():
    """Fisher 1935, section 21: 15 pairs of maize, 863 of 2^15 patterns one-sided as far (p = .0527 two-sided)."""
    d = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48])
    exact = (np.abs(((np.arange(2**15)[:, None] >> np.arange(15) & 1) * 2 - 1) @ d) >= d.sum()).mean()
    assert exact == pytest.approx(2 * 863 / 2**15)
    assert sign_flip(d) == pytest.approx(exact, abs=4 * np.sqrt(exact / 9999))  # 15 seeds: patterns are drawn


def test_drawn_patterns_never_give_zero_and_the_same_seed_the_same_bits():
    d = np.ones(20)
    assert sign_flip(d) == smallest_p(20) == pytest.approx(1e-4)
    other = drawn(3, 20)
    assert np.array_equal(sign_flip(other, seed=4), sign_flip(other, seed=4))


def test_p_does_not_change_with_scale_sign_or_order_and_nothing_found_is_one():
    d = drawn(9)
    assert sign_flip(1e-9 * d) == sign_flip(-d) == sign_flip(d[::-1]) == sign_flip(d)
    assert sign_flip(np.zeros(8)) == 1.0


def test_differences_that_tie_but_for_rounding_count_as_ties():
    d = np.array([0.1, 0.2, 0.3, -0.3, 0.1, 0.2]) + 0.0
    whole = (d * 10).round().astype(int)
    patterns = (np.arange(64)[:, None] >> np.arange(6) & 1) * 2 - 1
    assert sign_flip(d) == (np.abs(patterns @ whole) >= abs(whole.sum())).mean()


@pytest.mark.parametrize("bad", [np.zeros((3, 0)), np.array([1.0, np.nan]), np.float64(1.0)])
def test_it_refuses_what_has_no_pairs_or_is_not_finite(bad):
    with pytest.raises(ValueError, match=r"sign_flip\(differences"):
        sign_flip(bad)


def test_the_smallest_p_is_reached_by_differences_of_one_sign_and_three_seeds_never_go_below_a_quarter():
    assert smallest_p(3) == 0.25 == sign_flip([3.0, 1.0, 2.0])
    for seeds in range(1, 13):
        assert smallest_p(seeds) == sign_flip(1 + np.arange(seeds))
    assert smallest_p(6) <= 0.05 < smallest_p(5)
    assert smallest_p(6, 2) > 0.05 and smallest_p(1) == smallest_p(2, 100) == 1.0
    assert [seeds_for(count) for count in (1, 2, 5, 20, 100)] == [6, 7, 8, 10, 12] and seeds_for(1000) is None


def test_holm_by_hand_and_in_the_order_given():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    several = holm(np.array([[0.5, 0.01], [0.02, 0.02]]))
    assert several == pytest.approx(np.array([[0.5, 0.02], [0.04, 0.04]]))
    with pytest.raises(ValueError, match="holm"):
        holm([1.2])


def test_holm_lies_between_the_p_given_and_bonferroni_and_keeps_their_order():
    p = np.random.default_rng(1).uniform(size=(200, 7))
    adjusted = holm(p)
    assert (adjusted >= p).all() and (adjusted <= np.minimum(1, 7 * p) + 1e-15).all()
    order = np.argsort(p, -1)
    assert (np.diff(np.take_along_axis(adjusted, order, -1)) >= 0).all()


@pytest.mark.parametrize("comparisons", [1, 5])
def test_false_positives_of_a_thousand_null_studies_are_within_the_binomial_band(comparisons):
    """Five variants beside one baseline share its runs, so that comparisons depend on each other."""
    runs = drawn(1000, comparisons + 1, 10, seed=11)
    p = sign_flip(runs[:, 1:] - runs[:, :1])
    wrong = int((holm(p) <= 0.05).any(-1).sum())
    low, high = stats.binom.interval(0.99, 1000, 0.05)
    assert wrong <= high
    if comparisons == 1:  # Holm is conservative where comparisons depend on each other
        assert wrong >= low


@pytest.mark.parametrize("seeds", [8, 10, 12])
def test_power_at_one_deviation_is_the_analytic_one(seeds):
    found = (sign_flip(drawn(8000, seeds, seed=seeds) + 1.0) <= 0.05).mean()
    assert found == pytest.approx(power(1.0, seeds), abs=0.05)


def test_power_is_that_of_a_table_and_of_the_t_test():
    t = stats.ttest_1samp(drawn(20000, 10, seed=5) + 1.0, 0.0, axis=-1).pvalue
    level = 50 / 1024  # the largest step of the sign-flip test below .05
    assert power(1.0, 10) == pytest.approx((t <= level).mean(), abs=0.01)
    assert power(1.0, 10) == pytest.approx(0.80, abs=0.01)  # Cohen 1988: 10 pairs for d = 1 at .05 and .80
    assert power(0.0, 10) == pytest.approx(level)
    assert power(3.0, 5) == 0.0  # five seeds cannot reach .05


def test_the_smallest_effect_is_found_with_a_chance_of_eight_tenths():
    for seeds, comparisons in ((10, 1), (10, 4), (14, 10)):
        size = smallest_effect(seeds, comparisons)
        p = sign_flip(drawn(3000, seeds, seed=seeds) + size)
        assert (p * comparisons <= 0.05).mean() == pytest.approx(0.8, abs=0.05)
    assert smallest_effect(5) == np.inf
    assert smallest_effect(10, 1) < smallest_effect(10, 4) < smallest_effect(9, 4)


def test_a_study_tells_beforehand_what_it_cannot_show():
    few = check_power(3, 1)
    assert not few.reachable and few.smallest == 0.25 and few.needed == 6
    assert "0.25" in few.says and "cannot reach significance" in few.says
    many = check_power(10, 5)
    assert many.reachable and many.smallest == 10 / 1024 and "0.0098" in many.says and "significant" not in many.says
    assert "compare fewer variants" in check_power(10, 1000).says
