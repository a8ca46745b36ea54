"""The area under the ROC curve of judges, by hand; and that judges tell two models apart."""

import math
from pathlib import Path

import numpy as np
import pytest

from regard.judging import Finding, PairedDifference
from regard.judging.validity import ANSWER, FILE, validities
from regard.lab.validation.built import built_models
from regard.lab.validation.judges import MEASURES, PLAUSIBILITY, area, judged_models, qualities, score
from regard.lab.validation.tables import judge_rows, validity_json

pytest.importorskip("scipy")
pytest.importorskip("sklearn")


def test_the_area_counts_pairs_and_ties_half():
    assert area(np.array([3.0, 1.0]), np.array([2.0, 0.0])) == 0.75
    assert area(np.array([1.0]), np.array([1.0, 1.0])) == 0.5
    assert area(np.array([0.0]), np.array([-math.inf])) == 1.0
    assert area(np.array([-math.inf]), np.array([-math.inf, -5.0])) == 0.25


def test_a_score_is_the_distance_to_the_baseline_in_the_direction_that_is_better():
    def found(better, value, baselines):
        apart = {
            name: PairedDifference(None if value is None else value - x, p=0.01)
            for name, x in baselines.items()
            if name == "random"
        }
        return Finding("a", value, "It is so.", better, 5, baselines=baselines, differences=apart)

    assert score(found("higher", 0.5, {"random": 0.2})) == pytest.approx(0.3)
    assert score(found("lower", 0.5, {"random": 0.2})) == pytest.approx(-0.3)
    assert score(found("lower", 0.5, {"limit": 0.9})) == -0.5
    assert score(found("lower", None, {"random": 0.2})) == -math.inf


def test_judges_tell_a_bottleneck_from_a_decoration():
    some = [one for one in built_models() if one.name in ("bottleneck", "decorative")]
    judged = judged_models(24, models=some)
    found = {one.measure: one for one in qualities(judged)}
    assert found["comprehensiveness of attention"].auroc == 1 == found[ANSWER].auroc
    assert found["comprehensiveness of attention"].false_positives == 0
    assert {one[0] for one in judge_rows(list(found.values()))} == set(found)
    assert ANSWER not in validity_json(list(found.values()))
    assert not set(PLAUSIBILITY) & set(validities())


def test_the_file_that_reports_read_is_of_measures_that_are_judged():
    assert set(validities()) <= set(MEASURES) and FILE.endswith(".json")
    assert all(0 <= one.auroc <= 1 and one.models >= 20 for one in validities().values())


def test_the_page_has_the_figures_that_reports_read():
    page = (Path(__file__).parents[3] / "docs/judge/built_models.md").read_text(encoding="utf-8")
    rows = {cells[0]: cells for line in page.splitlines() if len(cells := line.strip("| ").split(" | ")) >= 6}
    for name, one in validities().items():
        wrong = "–" if one.false_positives is None else f"{one.false_positives:.2f}"
        assert [float(rows[name][1]), rows[name][4]] == [pytest.approx(one.auroc, abs=0.0051), wrong], name
        assert rows[name][5].startswith(str(one.models)) and ("weak" in rows[name][-1]) == one.weak, name
