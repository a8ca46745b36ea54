import pytest

from regard.models.training.experiment import Measure
from regard.studies.results import Missing, Results, Row


def results() -> Results:
    rows = [Row("retrieval", "additive", seed, "accuracy", value, (value, 1.0)) for seed, value in ((1, 0.5), (0, 0.1))]
    rows += [Row("retrieval", "none", 0, "truth", None), Row("retrieval", "none", 0, "accuracy", 0.25)]
    measures = {"retrieval": {"accuracy": Measure("accuracy, %"), "truth": Measure("weight", 1.0, 3, False)}}
    trivial = [Row("retrieval", "the most frequent", 0, "accuracy", 0.2)]
    return Results(
        "quick",
        "none",
        ("retrieval",),
        ("none", "additive"),
        (0, 1),
        measures,
        rows,
        trivial,
        frozenset({"retrieval"}),
        {"retrieval": {"none": 3, "additive": 4}},
        missing=(Missing("retrieval", "none", 1, "waiting"),),
    )


def test_results_come_back_equal_from_their_own_text_and_give_the_same_bytes_again():
    found = Results.from_json(results().to_json())
    assert found == results()
    assert found.to_json() == results().to_json()


def test_values_are_by_seed_in_order_and_leave_the_undefined_out():
    assert list(results().values("retrieval", "additive", "accuracy").items()) == [(0, 0.1), (1, 0.5)]
    assert results().values("retrieval", "none", "truth") == {}
    assert results().scores("retrieval", "additive", "accuracy")[1] == (0.5, 1.0)
    assert results().main("retrieval") == "accuracy"


def test_a_value_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="None"):
        Row("retrieval", "dot", 0, "accuracy", float("nan"))


def test_text_of_another_version_is_refused():
    with pytest.raises(ValueError, match="version 1"):
        Results.from_json('{"version": 7}')
