"""Comparisons over folds, what they can see, and verdicts."""

import math

import numpy as np
import pytest
from scipy.stats import t as student
from tests.lab.drug_response.results import LEVELS, results

from regard.lab.drug_response.evaluation.paired_tests import compare, corrected_test, smallest_visible
from regard.lab.drug_response.evaluation.report import SplitReport, measure_sheet, power_sentence
from regard.lab.drug_response.protocol.settings import FULL, SMALL
from regard.lab.drug_response.protocol.splits import SPLITS
from regard.studies.results import Row


def test_without_overlap_the_test_is_the_paired_t_test_and_overlap_makes_it_less_sure():
    from scipy.stats import ttest_1samp

    d = np.array([0.3, 0.1, 0.4, 0.2, 0.25])
    ends, p = corrected_test(d, 0.0)
    plain = ttest_1samp(d, 0)
    assert p == pytest.approx(plain.pvalue)
    assert ends == pytest.approx(tuple(plain.confidence_interval(0.95)))
    assert corrected_test(d, 0.25)[1] > p


def test_the_visible_difference_is_found_with_power_eight_tenths():
    folds, overlap = 5, 0.25
    seen = smallest_visible(folds, 1, overlap)
    draw = np.random.default_rng(0)
    mean = seen + math.sqrt(1 / folds + overlap) * draw.normal(size=20000)
    spread = np.sqrt(draw.chisquare(folds - 1, size=20000) / (folds - 1))
    p = 2 * student.sf(np.abs(mean) / (spread * math.sqrt(1 / folds + overlap)), folds - 1)
    assert (p <= 0.05).mean() == pytest.approx(0.8, abs=0.02)
    assert smallest_visible(folds, 30) > seen > smallest_visible(2 * folds, 1)
    assert smallest_visible(1) == math.inf


def test_a_comparison_is_corrected_for_its_family():
    draw = np.random.default_rng(0)
    values = {
        name: dict(enumerate(level + 0.01 * draw.normal(size=5)))
        for name, level in {"a": 1.0, "b": 1.3, "c": 1.0}.items()
    }
    alone = compare(values, [("a", "b")])[0]
    family = compare(values, [("a", "b"), ("c", "b"), ("a", "c")])
    assert alone.verdict == family[0].verdict == "better" and family[0].adjusted > alone.adjusted
    assert family[2].verdict == "no significant difference" and family[0].visible > alone.visible


def test_the_verdict_counts_networks_beside_the_means_the_best_trees_and_the_ridge():
    found = SplitReport.of("cells", results(LEVELS))
    assert found.trees == "boosting" and {one.model for one in found.against} == {"mlp", "gat"}
    assert found.verdicts("means") == {"gat": "better"} and found.verdicts("ridge") == {"gat": "worse"}
    says = found.says()
    assert "attention is not what is needed" in says and "1 of 1 are better than the mean effects" in says
    assert "0 better and 1 worse than one ridge" in says
    assert "0 are significantly worse than the learned weights" in found.says_of_ablations()


def test_attention_that_beats_the_trees_and_the_ridge_is_said_to_add_something():
    found = SplitReport.of("cells", results(LEVELS | {"gat": 1.2}))
    assert "attention adds something" in found.says()
    assert "1 is significantly worse than the learned weights (gat/uniform)" in found.says_of_ablations()


def test_where_no_test_decides_no_gain_is_shown():
    whole = results(LEVELS)
    draw = np.random.default_rng(1)
    whole.rows = [
        Row(row.task, row.variant, row.seed, "rmse", row.value + 0.3 * draw.normal()) if row.metric == "rmse" else row
        for row in whole.rows
    ]
    assert "no gain by attention is shown" in SplitReport.of("cells", whole).says()


def test_one_fold_is_too_few_for_a_verdict_and_its_table_is_shown():
    whole = results(LEVELS)
    whole.rows = [row for row in whole.rows if row.seed == 0]
    found = SplitReport.of("cells", whole)
    assert "too few folds" in found.says() and len(measure_sheet(found).rows) == len(LEVELS)


def test_what_can_be_seen_is_said_before():
    assert "5 folds" in power_sentence(5, 36) and "36 comparisons" in power_sentence(5, 36)


@pytest.mark.parametrize("setting", [SMALL, FULL])
def test_a_setting_is_a_study_for_each_split_with_the_same_number_of_settings_for_all_models(setting):
    for split in SPLITS:
        study = setting.study(split)
        assert study.tasks[0].options["trials"] == setting.trials and len(study.seeds) == setting.seeds
        assert {"means", "ridge", "forest", "boosting", "mlp", "gat", "cross"} <= set(study.variant_names().values())
