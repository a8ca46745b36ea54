"""A board: variants ranked over tasks, with the intervals and costs of what was run."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import t

from regard.models.training.experiment import Measure
from regard.studies.board import board
from regard.studies.results import Results, Row
from regard.views.board import board_page, learning_curve, save_board

RNG = np.random.default_rng(0)
ACCURACY, ERROR = Measure("accuracy, %"), Measure("error", 1.0, 2, higher=False)


def study(name="one", tasks=("a", "b", "c"), shift=0.0, measure=ACCURACY, **options):
    """Variants "good", "fair" and "bad" over eight seeds."""
    levels = {"good": 0.9, "fair": 0.8, "bad": 0.6}
    if not measure.higher:
        levels = {variant: 1 - level for variant, level in levels.items()}
    rows, trials = [], []
    for task in tasks:
        for variant, level in levels.items():
            for seed in range(8):
                value = float(level + shift + 0.01 * RNG.standard_normal())
                rows.append(Row(task, variant, seed, "m", value))
                where = {"task": task, "variant": variant, "seed": seed}
                trials.append(where | {"seconds": 9.0, "peak": {"process": 2**30}, "curve": [0.1, value, value]})
    measures = {task: {"m": measure} for task in tasks}
    return Results(name, "fair", tuple(tasks), tuple(levels), tuple(range(8)), measures, rows, trials=trials, **options)


def test_variants_stand_by_their_mean_rank():
    found = board([study()])
    assert found.variants == ("good", "fair", "bad")
    assert found.mean_rank("good") == 1 and found.mean_rank("bad") == 3
    assert found.of("good", 0).rank == 1


def test_less_is_better_where_the_measure_says_so():
    assert board([study(measure=ERROR)]).variants == ("good", "fair", "bad")


def test_studies_stand_side_by_side_and_tasks_of_one_name_apart():
    found = board([study(), study("two", measure=ERROR)])
    assert [task.label for task in found.tasks][:4] == ["a (one)", "b (one)", "c (one)", "a (two)"]
    assert found.ranks.tasks == 6


def test_ranks_are_over_the_tasks_that_all_have_run():
    more = study("two", ("d",))
    more.rows = [row for row in more.rows if row.variant != "bad"]
    found = board([study(), more])
    assert found.shared == (0, 1, 2) and found.of("bad", 3) is None
    assert found.of("good", 3) is not None


def test_the_interval_is_students_and_wider_where_splits_overlap():
    plain = study()
    values = np.array(list(plain.values("a", "good", "m").values()))
    low, high = board([plain]).of("good", 0).interval
    assert (low, high) == pytest.approx(t.interval(0.95, 7, values.mean(), values.std(ddof=1) / np.sqrt(8)))
    wide = board([Results(**{**vars(plain), "overlap": {"a": 0.25}})]).of("good", 0).interval
    assert (wide[1] - wide[0]) / (high - low) == pytest.approx(np.sqrt(8 * (1 / 8 + 0.25)))


def test_the_cost_has_every_training_and_its_tuning():
    tuned = {"a": {"good": {"configuration": {"rate": 0.1}, "validation": 0.9, "tried": 4, "seconds": 3600.0}}}
    found = board([study(tuned=tuned)])
    assert found.cost["good"] == pytest.approx(3 * 8 * 9 / 3600 + 1)
    assert found.cost["bad"] == pytest.approx(3 * 8 * 9 / 3600)


def test_the_sentence_claims_no_more_than_the_ranks():
    assert "has the best mean rank, 1.00 of 3, over 8 tasks" in (says := board([study(tasks="abcdefgh")]).says)
    assert "Not significantly different from it (Nemenyi): fair." in says
    same = study()
    same.rows = [Row(row.task, row.variant, row.seed, row.metric, 0.5) for row in same.rows]
    assert "do not differ significantly" in board([same]).says
    assert "two tasks" in board([study(tasks=("a",))]).says


class Page(HTMLParser):
    """Ids, and targets of links within the page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.targets = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and found.get("href", "").startswith("#"):
            self.targets.add(found["href"][1:])


def test_every_number_of_the_page_leads_to_its_trainings(tmp_path):
    page = board_page(board([study()]), tmp_path, {})
    read = Page(page)
    assert len(read.targets) == 9 and read.targets <= read.ids
    assert page.count("<polyline") == 3 * 3 * 8


def test_trials_that_lie_beside_the_page_are_linked(tmp_path):
    (tmp_path / "folder" / "trials" / "a" / "good-0").mkdir(parents=True)
    page = save_board(board([study()]), tmp_path / "board.html", {"one": tmp_path / "folder"}).read_text()
    assert page.count('href="folder/trials/') == 1


def test_names_of_variants_are_text_on_the_page(tmp_path):
    evil = study()
    evil.variants = tuple("<b>x</b>" if name == "good" else name for name in evil.variants)
    evil.rows = [Row(r.task, "<b>x</b>" if r.variant == "good" else r.variant, r.seed, "m", r.value) for r in evil.rows]
    assert "<b>x</b>" not in board_page(board([evil]), tmp_path, {})


def test_results_with_trials_and_tuning_round_trip():
    found = study(tuned={"a": {"good": {"configuration": {}, "validation": 0.9, "tried": 4, "seconds": 1.0}}})
    assert Results.from_json(found.to_json()) == found
    older = json.loads(found.to_json())
    del older["tuned"], older["trials"]
    assert board([Results.from_json(json.dumps(older))]).variants == ("good", "fair", "bad")


def test_a_curve_of_one_value_is_none():
    assert learning_curve([0.5]) == "" and "<polyline" in learning_curve([0.5, 0.5])
