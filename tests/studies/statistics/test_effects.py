"""Effect sizes, the probability of improvement and ranks beside published figures and second computations."""

import math

import numpy as np
import pytest
from scipy import stats

from regard.studies.statistics import effect, holm, probability_of_improvement, ranks

# Demsar 2006, table 6: area under the curve of four ways to prune C4.5 on 14 data sets, compared with the text of the
# paper cell by cell. His ranks put the third above the fourth on the last but one (voting), though both are .975 as
# printed: hence .9751.
DEMSAR = np.array([
    [.763, .599, .954, .628, .882, .936, .661, .583, .775, 1.0, .940, .619, .972, .957],
    [.768, .591, .971, .661, .888, .931, .668, .583, .838, 1.0, .962, .666, .981, .978],
    [.771, .590, .968, .654, .886, .916, .609, .563, .866, 1.0, .965, .614, .9751, .946],
    [.798, .569, .967, .657, .898, .931, .685, .625, .875, 1.0, .962, .669, .975, .970],
])  # fmt: skip
PRUNED = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")


def test_d_is_t_over_the_root_of_the_seeds_and_g_is_less_biased():
    d = np.random.default_rng(0).normal(0.5, 2.0, 10)
    found = effect(d)
    assert found.d == pytest.approx(stats.ttest_1samp(d, 0).statistic / math.sqrt(10))
    assert found.g / found.d == pytest.approx(1 - 3 / (4 * 9 - 1), abs=2e-3)  # Hedges' own approximation of J
    many = np.random.default_rng(1).normal(1.0, 1.0, (4000, 6))
    sizes, six = many.mean(1) / many.std(1, ddof=1), effect(many[0])
    assert six.d == pytest.approx(sizes[0]) and sizes.mean() > 1.1
    assert sizes.mean() * six.g / six.d == pytest.approx(1.0, abs=0.03)


def test_the_interval_of_g_holds_the_truth_at_its_level_and_zero_as_the_t_test_does():
    many = np.random.default_rng(2).normal(0.8, 1.0, (400, 8))
    found = [effect(row) for row in many]
    factor = found[0].g / found[0].d
    inside = np.mean([low <= 0.8 * factor <= high for low, high in (one.interval for one in found)])
    assert stats.binomtest(int(inside * 400), 400, 0.95).pvalue > 0.01
    p = stats.ttest_1samp(many, 0.0, axis=-1).pvalue
    assert [low > 0 or high < 0 for low, high in (one.interval for one in found)] == (p < 0.05).tolist()


@pytest.mark.parametrize("size", [-300.0, 120.0, 3000.0])
def test_a_huge_effect_has_the_interval_of_its_deviation_alone(size):
    d = size + np.random.default_rng(3).standard_normal(15)
    found = effect(d)  # the mean is known nearly exactly: what is not is the deviation, whose square is chi-squared
    ends = sorted(found.g * math.sqrt(stats.chi2.ppf(share, 14) / 14) for share in (0.025, 0.975))
    assert found.interval == pytest.approx(ends, rel=5e-4)


def test_an_effect_is_undefined_without_a_deviation():
    assert effect([1.0]) is None and effect([0.3] * 7) is None and effect(np.zeros(5)) is None
    with pytest.raises(ValueError, match="effect"):
        effect(np.zeros((2, 3)))


def test_improvement_is_mann_whitneys_u_over_all_pairs_averaged_over_tasks():
    draw = np.random.default_rng(3)
    tasks = [(draw.integers(0, 6, 9).astype(float), draw.integers(0, 6, 7).astype(float)) for _ in range(3)]
    by_scipy = np.mean([stats.mannwhitneyu(x, y).statistic / (x.size * y.size) for x, y in tasks])
    found = probability_of_improvement(*zip(*tasks, strict=True))
    assert found.value == pytest.approx(by_scipy)
    back = probability_of_improvement(*[[pair[i] for pair in tasks] for i in (1, 0)])
    assert back.value == pytest.approx(1 - by_scipy)
    low, high = found.interval
    assert low < found.value < high


def test_improvement_is_certain_where_every_run_is_better_and_half_where_all_tie():
    better = probability_of_improvement([[3.0, 4.0]], [[1.0, 2.0]])
    assert better.value == 1.0 and better.interval == (1.0, 1.0)
    assert probability_of_improvement([[1.0, 1.0]], [[1.0]]).value == 0.5
    assert probability_of_improvement([[1.0]], [[2.0]]).interval is None
    with pytest.raises(ValueError, match="probability_of_improvement"):
        probability_of_improvement([[]], [[1.0]])


def test_runs_are_resampled_within_each_task():
    """Two tasks, one always won and one never: P is exactly a half in every resample."""
    found = probability_of_improvement([[5.0, 6.0], [1.0, 2.0]], [[1.0, 2.0], [5.0, 6.0]])
    assert found.value == 0.5 and found.interval == (0.5, 0.5)


def test_ranks_are_demsars():
    found = ranks(DEMSAR, PRUNED)
    assert found.average == pytest.approx((3.143, 2.000, 2.893, 1.964), abs=6e-4)
    assert found.critical == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=1e-3)  # his CD of 1.25
    assert ranks(DEMSAR, PRUNED, alpha=0.1).critical == pytest.approx(1.12, abs=5e-3)
    statistic = 12 * 14 / 20 * (sum(rank**2 for rank in found.average) - 4 * 25 / 4)
    assert statistic == pytest.approx(9.28, abs=0.01)
    k, n, each = 4, 14, stats.rankdata(-DEMSAR, axis=0)
    tied = sum(float((t**3 - t).sum()) for t in (np.unique(task, return_counts=True)[1] for task in each.T))
    corrected = statistic / (1 - tied / (n * k * (k * k - 1)))
    assert found.p == pytest.approx(stats.chi2.sf(corrected, 3))
    f_f = 13 * corrected / (14 * 3 - corrected)
    assert 13 * statistic / (14 * 3 - statistic) == pytest.approx(3.69, abs=0.01)  # his, which forgets the ties
    assert found.p_f == pytest.approx(stats.f.sf(f_f, 3, 39)) and found.p_f < found.p


def test_with_ties_friedmans_p_is_scipys_and_a_whole_tie_says_nothing():
    table = np.random.default_rng(5).integers(3, size=(4, 9)).astype(float)
    assert ranks(table, tuple("abcd")).p == pytest.approx(stats.friedmanchisquare(*table).pvalue)
    tied = ranks(np.ones((3, 5)), tuple("abc"))
    assert tied.p == tied.p_f == 1.0
    certain = ranks(np.tile(np.arange(3.0)[:, None], (1, 6)), tuple("abc"))
    assert certain.p_f == 0.0 < certain.p


def test_without_ties_friedmans_p_is_scipys():
    table = np.random.default_rng(4).normal(size=(5, 12)) + np.arange(5)[:, None] / 4
    assert ranks(table, tuple("abcde")).p == pytest.approx(stats.friedmanchisquare(*table).pvalue)


def test_holm_rejects_what_it_rejects_in_demsars_example():
    """z by his standard error of .488: 2.416, 2.342 and .512; at .05 the first two are rejected, the third is not."""
    average = np.array(ranks(DEMSAR, PRUNED).average)
    z = (average[0] - average[[3, 1, 2]]) / math.sqrt(4 * 5 / (6 * 14))
    p = 2 * stats.norm.sf(z)
    assert z == pytest.approx([2.416, 2.342, 0.512], abs=3e-3) and p == pytest.approx([0.016, 0.019, 0.607], abs=2e-3)
    assert (holm(p) <= 0.05).tolist() == [True, True, False]


def test_groups_are_every_largest_run_within_the_critical_difference():
    found = ranks(DEMSAR, PRUNED)
    for group in found.groups:
        within = [found.average[PRUNED.index(name)] for name in group]
        assert max(within) - min(within) < found.critical
    assert found.groups == (("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"),)  # 1.964 and 3.143 are 1.18 apart: below 1.25
    close = ranks(DEMSAR, PRUNED, alpha=0.1)  # within 1.12: 1.964 and 2.893, 2.893 and 3.143, not 2.000 and 3.143
    assert close.groups == (("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5"))
    apart = ranks(np.tile(np.arange(3.0)[:, None], (1, 60)), ("a", "b", "c"))
    assert apart.groups == () and apart.average == (3.0, 2.0, 1.0)


def test_lower_is_better_turns_ranks_round_and_one_task_tells_nothing_apart():
    up, down = ranks(DEMSAR, PRUNED), ranks(-DEMSAR, PRUNED, higher=False)
    assert up == down
    single = ranks(DEMSAR[:, :1], PRUNED)
    assert single.p is None and single.critical == math.inf and len(single.groups[0]) == 4
    with pytest.raises(ValueError, match="ranks"):
        ranks(DEMSAR, PRUNED[:3])
