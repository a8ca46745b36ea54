"""Tuning: the same configurations for every variant, chosen on validation, before the seeds are run."""

import pytest

from regard.studies import Study
from regard.studies.run_study import run, store_of
from regard.studies.tuning import MARK, Tuning, choices

SEARCH = {"x": [2, 3, 4]}


def study(variants=("plain", "three"), **options):
    tuning = {"configurations": 4, "seeds": 2, "search": SEARCH}
    task = {"task": "tasks_of_tests:tunable", "metrics": {"score": "higher"}, "tunable": ["x"]}
    return Study(name="tuned", tasks=[task], variants=list(variants), seeds=4, tuning=tuning, retries=0, **options)


def test_each_variant_is_tested_with_what_its_validation_chose(tmp_path):
    found = run(study(), tmp_path, workers=2)
    tuned = found.tuned["tasks_of_tests:tunable"]
    assert tuned["plain"]["configuration"] == {}  # the task's own
    assert tuned["three"]["configuration"] == {"x": 3}
    assert {one["tried"] for one in tuned.values()} == {4}
    assert not found.missing
    assert found.values("tasks_of_tests:tunable", "three", "score") == pytest.approx({s: 0.001 * s for s in range(4)})


def test_trials_of_tuning_are_no_rows_of_the_results(tmp_path):
    found = run(study(), tmp_path, workers=2)
    assert {row.variant for row in found.rows} == {"plain", "three"}
    assert len(found.trials) == 8 and all(one["curve"] for one in found.trials)


def test_a_run_that_was_stopped_while_it_tuned_goes_on(tmp_path):
    whole = study()
    trials = store_of(tmp_path, create=True)
    from regard.studies.run_study import current_jobs

    trials.add(whole.name, whole.plain(), current_jobs(trials, whole))
    lease = trials.claim(whole.name, "somebody who never comes back")
    assert lease is not None and MARK in lease.variant
    trials.release(lease, "stopped")
    assert choices(whole, trials.trials(whole.name, results=True)) == {}
    trials.close()
    assert len(run(whole, tmp_path, workers=2).rows) == 8
    again = run(whole, tmp_path, workers=2)  # nothing is left to do
    assert len(again.rows) == 8


def test_a_configuration_that_fails_is_out(tmp_path):
    found = run(study(["plain", "broken"]), tmp_path, workers=2)
    assert found.tuned["tasks_of_tests:tunable"]["broken"]["configuration"] == {}
    assert not found.missing


def test_the_same_draw_serves_every_variant_and_every_machine():
    space = {
        "rate": {"low": 1e-4, "high": 1e-1, "log": True},
        "layers": {"low": 1, "high": 5},
        "norm": ["none", "layer"],
    }
    one, other = (Tuning(configurations=20, search=space).configurations_drawn() for _ in range(2))
    assert one == other and one[0] == {} and len(one) == 20
    assert all(1e-4 <= each["rate"] <= 1e-1 and each["layers"] in range(1, 6) for each in one[1:])
    assert len({each["rate"] for each in one[1:]}) == 19
    assert Tuning(configurations=20, search=space, draw=1).configurations_drawn() != one


def test_a_small_space_is_tried_whole():
    assert len(Tuning(configurations=50, search={"x": [1, 2], "y": [True, False]}).configurations_drawn()) == 5


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"search": {"y": [1]}},
            "tuning.search.y: 'y' is no hyperparameter of the task tasks_of_tests:tunable; it has x",
        ),
        ({"seeds": 9}, "tuning.seeds: tuning on 9 seeds, of 4"),
        ({"search": {"x": {"low": 2, "high": 1}}}, "low = 2, high = 1: expected low < high"),
        ({"search": {"x": []}}, "search.x is empty"),
        ({"configurations": 1}, "configurations"),
    ],
)
def test_a_wrong_tuning_is_answered_by_a_sentence(wrong, says, tmp_path):
    file = tmp_path / "s.toml"
    tuning = {"configurations": 3, "seeds": 1, "search": SEARCH} | wrong
    search = ", ".join(f"{name} = {_toml(value)}" for name, value in tuning["search"].items())
    file.write_text(
        'name = "a"\nvariants = ["plain"]\nseeds = 4\n[tuning]\n'
        f"configurations = {tuning['configurations']}\nseeds = {tuning['seeds']}\nsearch = {{ {search} }}\n"
        '[[tasks]]\ntask = "tasks_of_tests:tunable"\nmetrics = { score = "higher" }\ntunable = ["x"]\n'
    )
    with pytest.raises(ValueError) as error:
        Study.read(file)
    assert says in str(error.value)


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {each}" for name, each in value.items()) + " }"
    return str(value)


def test_a_study_of_a_store_keeps_its_tuning(tmp_path):
    run(study(), tmp_path, workers=2)
    with pytest.raises(ValueError, match="tuning"):
        run(study().model_copy(update={"tuning": None}), tmp_path)
