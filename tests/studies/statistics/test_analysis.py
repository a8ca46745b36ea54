"""A study's rows into comparisons: pairing, the family that is corrected, intervals, and what may be said."""

import numpy as np
import pytest
from scipy import stats

from regard.models.training.experiment import Measure
from regard.studies.results import Results, Row
from regard.studies.statistics import analyse, holm, sign_flip, smallest_effect
from regard.studies.statistics.comparison import corrected_p, interval, paired

VARIANTS = ("mean", "gat", "mlp")


def study(values: np.ndarray, higher: bool = True, scores: np.ndarray | None = None, drawn: bool = False) -> Results:
    """values (tasks, variants, seeds) of one metric, and a second metric that is ten times it."""
    tasks = tuple(f"task {t}" for t in range(values.shape[0]))
    measures = {task: {"accuracy": Measure("accuracy", higher=higher), "other": Measure("other")} for task in tasks}
    rows = []
    for (t, v, s), value in np.ndenumerate(values):
        each = None if scores is None else tuple(scores[t, v, s].tolist())
        rows.append(Row(tasks[t], VARIANTS[v], s, "accuracy", float(value), each))
        rows.append(Row(tasks[t], VARIANTS[v], s, "other", 10 * float(value)))
    return Results(
        "s",
        "mean",
        tasks,
        VARIANTS[: values.shape[1]],
        tuple(range(values.shape[2])),
        measures,
        rows,
        drawn=frozenset(tasks if drawn else ()),
    )


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def test_one_family_of_tests_covers_every_task_and_variant():
    values = drawn(2, 3, 10)
    values[0, 1] += 2.0
    found = analyse(study(values))
    p = np.array([sign_flip(values[t, v] - values[t, 0]) for t in (0, 1) for v in (1, 2)])
    assert [one.p for one in found.comparisons] == pytest.approx(p)
    assert [one.adjusted for one in found.comparisons] == pytest.approx(holm(p))
    assert found.power.comparisons == 4 and found.comparisons[0].verdict == "better"
    assert all(one.p is None and one.verdict == "not tested" for one in found.others) and len(found.others) == 4


def test_where_lower_is_better_the_same_numbers_are_worse():
    values = drawn(1, 2, 10)
    values[0, 1] += 3.0
    up, down = (analyse(study(values, higher)).comparisons[0] for higher in (True, False))
    assert (up.verdict, down.verdict) == ("better", "worse")
    assert up.difference == down.difference and up.improvement.value == pytest.approx(1 - down.improvement.value)


def test_few_seeds_give_points_and_no_verdict_however_large_the_difference():
    values = drawn(1, 2, 5)
    values[0, 1] += 100.0
    one = analyse(study(values)).comparisons[0]
    assert one.verdict == "underpowered" and one.difference.interval is None and one.improvement.interval is None
    assert one.difference.value == pytest.approx((values[0, 1] - values[0, 0]).mean()) and one.visible == np.inf


def test_what_was_not_found_comes_with_what_could_have_been():
    values = drawn(1, 2, 10)
    one = analyse(study(values)).comparisons[0]
    d = values[0, 1] - values[0, 0]
    assert one.verdict == "no significant difference"
    assert one.visible == pytest.approx(smallest_effect(10) * d.std(ddof=1))


def test_seeds_are_paired_by_number_and_what_is_missing_is_left_out_of_both():
    values = drawn(1, 3, 10)
    results = study(values)
    results.rows = [row for row in results.rows if (row.variant, row.seed) not in {("gat", 3), ("mean", 5)}]
    results.rows = [row for row in results.rows if row.variant != "mlp"][::-1]
    found = analyse(results)
    kept = [s for s in range(10) if s not in (3, 5)]
    one = found.comparisons[0]
    assert one.seeds == 8 and one.difference.value == pytest.approx((values[0, 1] - values[0, 0])[kept].mean())
    assert found.lacking == (("task 0", "mlp"),) and found.ranks is None
    assert one.adjusted == pytest.approx(min(1.0, 2 * one.p))  # the study set out to compare two


def test_instances_are_resampled_only_where_their_mean_is_the_value_and_seeds_met_the_same():
    scores = np.random.default_rng(1).uniform(size=(1, 2, 8, 30))
    honest = analyse(study(scores.mean(-1), scores=scores)).comparisons[0]
    corpus = analyse(study(scores.mean(-1) + 0.3, scores=scores)).comparisons[0]
    split = analyse(study(scores.mean(-1), scores=scores, drawn=True)).comparisons[0]
    assert (honest.resampled, corpus.resampled, split.resampled) == ("seeds and instances", "seeds", "seeds")
    assert honest.difference.n == 30


def test_a_hard_instance_shared_by_all_seeds_widens_the_interval_as_more_seeds_cannot_narrow_it():
    """All seeds alike, instances differ: resampling seeds alone would call the difference certain."""
    each = np.tile(np.random.default_rng(2).normal(size=40), (8, 1))
    low, high = interval(each.mean(1), each).interval
    assert high - low > 2 * each[0].std() / np.sqrt(40)
    assert interval(each.mean(1)).interval is None  # seeds alone tell no spread


def test_the_interval_of_ten_seeds_is_students():
    for values in drawn(12, 10):
        found = interval(values)
        theirs = stats.t.interval(0.95, 9, loc=values.mean(), scale=stats.sem(values))
        assert found.interval == pytest.approx(theirs) and interval(values[:5]).interval is None


def test_the_same_results_give_the_same_bits_and_another_baseline_may_be_named():
    results = study(drawn(2, 3, 7))
    assert analyse(results, seed=1) == analyse(results, seed=1)
    turned = analyse(results, "gat")
    assert {one.variant for one in turned.comparisons} == {"mean", "mlp"}
    first = next(one for one in analyse(results).comparisons if one.variant == "gat")
    assert turned.comparisons[0].difference.value == pytest.approx(-first.difference.value)
    with pytest.raises(ValueError, match="expected one of mean, gat, mlp"):
        analyse(results, "none")
    with pytest.raises(ValueError, match="nothing to compare"):
        analyse(study(drawn(1, 1, 7)))


def test_scores_of_unequal_number_are_not_paired():
    assert paired({0: 1.0}, {0: 2.0}, {0: (1.0, 1.0)}, {0: (2.0, 2.0, 2.0)})[1] is None
    whole, each = paired(
        {0: 1.0, 1: 3.0}, {0: 2.0, 1: 2.0}, {0: (0.0, 2.0), 1: (3.0, 3.0)}, {0: (2.0, 2.0), 1: (1.0, 3.0)}
    )
    assert whole.tolist() == [-1.0, 1.0] and each.tolist() == [[-2.0, 0.0], [2.0, 0.0]]


def test_a_split_that_two_seeds_share_is_one_and_not_two():
    values = drawn(1, 2, 20)
    values[0, 1] += 1.0
    results = study(values)
    results.splits["task 0"] = 10
    one = analyse(results).comparisons[0]
    halves = values.reshape(1, 2, 2, 10).mean(2)  # seeds i and i + 10
    assert one.seeds == 10 and one.p == pytest.approx(sign_flip(halves[0, 1] - halves[0, 0]))
    assert analyse(study(values)).comparisons[0].seeds == 20


def test_splits_that_overlap_have_the_corrected_t_test():
    """Nadeau & Bengio 2003: the variance of the mean is (1 / s + test / train) s^2, not s^2 / s."""
    values = drawn(1, 2, 10)
    values[0, 1] += 1.2
    results = study(values)
    results.overlap["task 0"] = 0.25
    one, plain = (analyse(each).comparisons[0] for each in (results, study(values)))
    d = values[0, 1] - values[0, 0]
    t = d.mean() / (d.std(ddof=1) * np.sqrt(1 / 10 + 0.25))
    assert one.p == pytest.approx(max(2 * stats.t.sf(abs(t), 9), sign_flip(d))) and one.p > plain.p
    ratio = np.ptp(one.difference.interval) / np.ptp(plain.difference.interval)
    assert ratio == pytest.approx(np.sqrt(1 + 10 * 0.25)) and one.resampled == "overlapping splits"


def test_overlapping_splits_where_nothing_is_there_keep_their_level():
    """Two learners that guess a mean from a random half of 40 numbers and are judged on the other half: the mean of
    their differences is far less certain than independent splits would make it."""
    random, plain, corrected = np.random.default_rng(3), 0, 0
    for _ in range(200):
        y, x = random.normal(size=(2, 40))  # x tells nothing of y
        d = []
        for _ in range(10):
            order = random.permutation(40)
            train, test = order[:20], order[20:]
            slope = np.polyfit(x[train], y[train], 1)
            d.append(np.mean((y[test] - y[train].mean()) ** 2 - (y[test] - np.polyval(slope, x[test])) ** 2))
        d = np.array(d) - LOSS
        plain += sign_flip(d) <= 0.05
        corrected += max(sign_flip(d), corrected_p(d, 1.0)) <= 0.05
    assert corrected <= 20 < plain


LOSS = -0.0621  # what the slope costs on average, by 40,000 splits of fresh data
