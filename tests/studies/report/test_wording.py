"""Sentences that never say more than the test, and which variants are below what is trivial."""

import numpy as np
import pytest
from tests.studies.made import drawn, made

from regard.studies.report import below_trivial, comparison_sheet, says, unequal
from regard.studies.report.wording import probability
from regard.studies.results import Row
from regard.studies.statistics import analyse


def said(values: np.ndarray, **how: bool) -> list[str]:
    found = analyse(made(values, **how))
    return [says(one, found.results.measures[one.task][one.metric]) for one in found.comparisons]


def test_a_difference_beyond_the_test_is_called_significant_with_its_size_interval_and_p():
    values = drawn(1, 2, 10)
    values[0, 1] = values[0, 0] + 0.05 + 0.001 * np.arange(10)
    (sentence,) = said(values)
    assert sentence.startswith("gat is better than mean on task 0 by 5.5 (accuracy, %, interval 5.")
    assert "significant, p = .002 after Holm's correction for 1 comparison, 10 seeds." in sentence
    (turned,) = said(values, higher=False)
    assert turned.startswith("gat is worse than mean on task 0 by 5.5 (accuracy, %, interval 5.")


def test_no_significant_difference_is_not_called_equality():
    (sentence,) = said(drawn(1, 2, 10))
    assert sentence.startswith("No significant difference between gat and mean on task 0")
    assert "would have been detected with power .8" in sentence
    assert "; significant" not in sentence and "equal" not in sentence and "same" not in sentence


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_the_word_significant_is_refused_where_it_cannot_be_reached(seeds):
    values = drawn(1, 2, seeds)
    values[0, 1] += 0.5
    (sentence,) = said(values)
    assert "this study is underpowered" in sentence and "it takes 6 seeds" in sentence
    assert "significant" not in sentence and "better" not in sentence and "interval" not in sentence


def test_a_difference_downwards_is_told_with_its_interval_the_right_way_round():
    values = drawn(1, 2, 10)
    values[0, 1] = values[0, 0] - 0.05 - 0.001 * np.arange(10)
    (sentence,) = said(values)
    low, high = sentence.partition("interval ")[2].partition(")")[0].split(" to ")
    assert 4.9 < float(low) < 5.45 < float(high) < 6.0 and "worse" in sentence


def test_a_difference_that_was_not_found_has_the_sign_that_the_table_gives_it():
    values = drawn(1, 2, 10)
    for turned in (values, values[:, ::-1]):
        found = analyse(made(turned))
        (sentence,), (row,) = said(turned), comparison_sheet(found).rows
        assert f"the difference is {row[2]} (accuracy, %, interval {row[3]})" in sentence
        assert row[2].startswith("+" if (found.comparisons[0].difference.value or 0) >= 0 else "−")


def test_a_metric_that_was_not_tested_is_told_as_such():
    found = analyse(made(drawn(1, 2, 10)))
    from dataclasses import replace

    one = replace(found.comparisons[0], p=None, adjusted=None)
    assert says(one, found.results.measures["task 0"]["accuracy"]).endswith("this metric was not tested.")


def test_probabilities_are_short_and_never_zero():
    assert [probability(p) for p in (0.25, 0.0039, 1.0, 1e-6, 0.998)] == [".25", ".0039", "1", "< .001", "1"]


def test_variants_at_or_below_the_best_trivial_baseline_are_named():
    values = np.full((1, 3, 6), 0.75)
    values[0, 1], values[0, 2] = 0.875, 0.5
    assert below_trivial(made(values, trivial=0.75), "task 0") == ("most frequent", 0.75, ["mean", "mlp"])
    assert below_trivial(made(values, trivial=0.75, higher=False), "task 0")[2] == ["mean", "gat"]
    assert below_trivial(made(values), "task 0") is None


def test_a_variant_is_set_beside_what_is_trivial_on_its_own_seeds():
    """The first seeds are hard for everybody: a variant that ran on these alone is not below for that."""
    values = np.array([[[0.5, 0.5, 1.0, 1.0], [0.5, 0.5, 1.0, 1.0]]])
    results = made(values)
    results.rows = [row for row in results.rows if row.variant == "mean" or row.seed < 2]
    results.trivial = [Row("task 0", "trivial", seed, "accuracy", x) for seed, x in enumerate((0.25, 0.25, 0.9, 0.9))]
    assert below_trivial(results, "task 0") == ("trivial", pytest.approx(0.575), [])


def test_parameters_that_are_not_equal_are_told_however_little_and_equal_ones_are_not():
    results = made(drawn(1, 3, 6))
    results.parameters = {"task 0": {"mean": 1000, "gat": 1000, "mlp": 1840}}
    assert unequal(results, "task 0", "mean") == (
        "Parameter counts differ on task 0: compared with mean (1,000), mlp +84 %."
    )
    results.parameters["task 0"]["gat"] = 999
    assert "gat −0.10 %, mlp +84 %" in unequal(results, "task 0", "mean")
    assert unequal(results, "task 0", "none") == ""  # a baseline that was not counted
    results.variants = ("mean", "gat")  # mlp is not asked about: regard study compare
    assert "compared with mean (1,000), gat −0.10 %." in unequal(results, "task 0", "mean")
    results.parameters["task 0"] = dict.fromkeys(("mean", "gat", "mlp"), 7)
    assert unequal(results, "task 0", "mean") == ""
