"""The first line of a report: what it answers, from which measures, and what stands beside it."""

import json

import pytest
from tests.judging.test_suite import marked

import regard
from regard.judging import Finding, Judged, Report
from regard.judging.artifacts import Caution
from regard.judging.summary import QUESTION, Headline, answer, deciding, summarise
from regard.judging.validity import Validity, validities, weakness

pytest.importorskip("scipy")
pytest.importorskip("sklearn")
pytest.importorskip("jinja2")

ABOUT = {"instances": 60, "unit": "texts"}


def verdict(how, aspect="faithfulness", name="a measure", baseline="random", test="a"):
    found = Finding(name, 0.5, "It is so.", "higher", 60, baselines={baseline: 0.1})
    return Headline(Judged(test, "Is it so?", [found], aspect=aspect), found, baseline, how)


def verdicts(better=0, worse=0, apart=0, **options):
    counts = {"better": better, "worse": worse, "not significantly different": apart}
    return [verdict(how, **options) for how, count in counts.items() for _ in range(count)]


def test_no_better_in_most_measures_is_a_no_that_says_in_how_many():
    said = answer(ABOUT, verdicts(better=3, worse=2, apart=5))
    assert (
        said
        == "Not on this evidence: on 60 texts it was not significantly better than random weights in 7 of 10 measures."
    )


def test_better_in_all_is_a_yes_as_far_as_was_tested_and_no_proof():
    said = answer(ABOUT, verdicts(better=3) + verdicts(better=1, test="adversary"))
    assert said.startswith("As far as it was tested, yes: on 60 texts") and "all 4 measures" in said
    assert said.endswith("no proof.")


def test_a_yes_is_better_than_each_baseline_and_a_no_no_better_than_some():
    both = verdicts(better=1, test="adversary") + verdicts(better=1, baseline="position")
    assert "better than random weights and weights by position in all 2 measures" in answer(ABOUT, both)
    assert "not significantly better than random weights or weights by position in 2 of" in answer(
        ABOUT, verdicts(apart=1) + verdicts(apart=1, baseline="position")
    )


@pytest.mark.parametrize(("test", "missing"), [("correlation", "(adversary)"), ("adversary", "point at what")])
def test_a_yes_needs_weights_that_point_and_a_prediction_that_needs_them(test, missing):
    said = answer(ABOUT, verdicts(better=3, test=test))
    assert said.startswith("Only in part") and missing in said and said.endswith("was not tested.")


def test_better_in_most_is_yes_in_part_and_names_the_others():
    said = answer(ABOUT, verdicts(better=3) + verdicts(worse=1, name="the weak side", baseline="chance"))
    assert said.startswith("Only in part") and "chance in 1 of 4 measures (the weak side)" in said


@pytest.mark.parametrize(
    "some", [[], verdicts(better=2, aspect="plausibility"), verdicts(better=2, aspect="task"), [verdict("undefined")]]
)
def test_without_a_measure_of_faithfulness_there_is_no_answer(some):
    assert answer(ABOUT, some).startswith("That cannot be said")


def test_a_weak_measure_does_not_decide_and_says_so():
    weak = [name for name, one in validities().items() if one.weak]
    for name in weak:
        assert weakness(name).startswith("A weak measure: on ")
        assert deciding([verdict("worse", name=name), verdict("better")]) == [verdict("better")]
    assert Validity(0.74, 0.0, 33).weak and Validity(0.9, 0.3, 33).weak and not Validity(0.9, None, 33).weak
    assert weakness("a finding that nobody measured") == ""


def test_what_makes_findings_mean_less_stands_at_the_top():
    trap = Judged("heads", "Do they?", evidence=[Caution("Redundant heads", "Without head 3 nothing moves.")])
    about = ABOUT | {"caution": "It saw 2 of 9 epochs.", "cut": 12}
    found = summarise(about, [trap], verdicts(apart=1, aspect="task", name="accuracy", baseline="bag of words"))
    half, cut, task, heads = found.cautions
    assert half == "Half-trained. It saw 2 of 9 epochs." and "12 of 60 texts" in cut
    assert "not significantly better than a bag of words (accuracy)" in task and heads.endswith("nothing moves.")
    assert "faithfulness" in found.not_asked and "heads" not in found.not_tested


def test_the_page_the_terminal_and_the_json_give_the_same_answer():
    from rich.console import Console

    from regard.cli.judge import _tell

    report = regard.judge(marked(count=12), tests="task,faithfulness,correlation,heads")
    said = report.summary.answer
    assert said in report.html() and str(report).startswith(said)
    assert 'title="95% interval: Clopper-Pearson"' in report.html()  # which the interval of a share is
    plain = json.loads(report.json())["summary"]
    assert plain["answer"] == said and plain["question"] == QUESTION
    shown = Console(width=300)
    with shown.capture() as captured:
        _tell(report, shown)
    printed = captured.get()
    assert f"{QUESTION} {said}" in printed
    assert "heads: The judged attention has one head" in printed and "Not requested: " in printed
    verdict_of = {one["finding"]: one["verdict"] for one in plain["verdicts"]}
    titles = {"better": "What held", "undefined": "Without a verdict"}
    for name, how in verdict_of.items():
        if how in titles:
            part = printed[printed.index(titles[how]) :]
            assert name in part
    assert Report.from_json(report.json()) == report


def test_the_field_words_are_explained_in_the_terminal_and_on_the_page():
    from regard.judging.summary import TERMS

    page = regard.judge(marked(count=4), tests="task").html()
    assert set(TERMS) == {"faithfulness", "plausibility", "sufficiency", "comprehensiveness"}
    for name, meaning in TERMS.items():
        assert f"<dt>{name}</dt>" in page and meaning.split("'")[0] in page
