"""A study as it is written: what a file means, and what is said of one that means nothing."""

import pytest

from regard.studies import Study
from regard.studies.toml_lines import line_of
from regard.studies.trial import TRIVIAL

WHOLE = """
name = "whole"
tasks = ["retrieval", { task = "cipher", small = false, options = { order = "luong" } }]
small = true
baseline = "uniform"
seeds = 3
metrics = ["accuracy", "exact"]

[budget]
steps = 100

[[variants]]
attention = ["uniform", "none"]

[[variants]]
score = ["additive", "dot"]
align = ["softmax", "entmax15"]

[[variants]]
score = "additive"
heads = [2, 4]
frozen = true
"""


def read(tmp_path, text):
    file = tmp_path / "study.toml"
    file.write_text(text)
    return Study.read(file)


def test_a_list_makes_a_grid_of_all_combinations(tmp_path):
    study = read(tmp_path, WHOLE)
    assert list(study.variant_names().values()) == [
        "uniform",
        "none",
        "additive",
        "entmax15",
        "dot",
        "dot+entmax15",
        "additive heads=2 frozen",
        "additive heads=4 frozen",
    ]
    assert study.baseline == "uniform" and study.seeds == (0, 1, 2)
    assert [task.small for task in study.tasks] == [True, False]


def test_every_task_variant_and_seed_is_one_trial_and_trivial_baselines_beside_them(tmp_path):
    study = read(tmp_path, WHOLE)
    jobs = study.jobs()
    assert len(jobs) == 2 * 3 * (8 + 1)
    assert len({(job["task"], job["variant"], job["seed"]) for job in jobs}) == len(jobs)
    assert sum(job["variant"] == TRIVIAL for job in jobs) == 6
    assert all(job["budget"] == {"steps": 100} for job in jobs)
    once = Study(name="a", tasks=["sst"], variants=["dot"], seeds=4).jobs()  # its data are the same for every seed
    assert sum(job["variant"] == TRIVIAL for job in once) == 1


def test_a_study_comes_back_equal_from_what_the_store_keeps(tmp_path):
    study = read(tmp_path, WHOLE)
    again = Study.model_validate(study.plain())
    assert again.jobs() == study.jobs() and again.plain() == study.plain()


def test_one_way_has_one_name_however_it_was_written():
    study = Study(
        name="a",
        tasks=["retrieval"],
        variants=["additive+entmax15", "additive frozen heads=2"],
        baseline="additive+entmax15",
    )
    assert list(study.variant_names().values()) == ["entmax15", "additive heads=2 frozen"]
    assert study.baseline == "entmax15"
    assert len(study.seeds) == 10


@pytest.mark.parametrize(
    "change, line, told",
    [
        (("seeds = 3", 'seeds = "three"'), 6, "seeds"),
        (("seeds = 3", "seeds = 0"), 6, "1 or more"),
        (("seeds = 3", "seeds = [1, 1]"), 6, "distinct"),
        (("seeds = 3", "sedes = 3"), 6, "did you mean 'seeds'"),
        (('name = "whole"', ""), 1, "write name ="),
        (('"retrieval", {', '"retrievel", {'), 3, "there is no task 'retrievel'"),
        (('baseline = "uniform"', 'baseline = "unifrom"'), 5, "did you mean 'uniform'"),
        (("steps = 100", "steps = 0"), 10, "greater than or equal to 1"),
        (("steps = 100", "steps = 9\nepochs = 2"), 9, "not both"),
        (("steps = 100", "step = 100"), 10, "did you mean 'steps'"),
        (('align = ["softmax", "entmax15"]', 'align = "sofmax"'), 15, "did you mean softmax"),
        (("heads = [2, 4]", 'heads = [2, "four"]'), 21, "heads"),
        (("heads = [2, 4]", "heads = 2\nhops = 2"), 19, "use one of them"),
        (('score = "additive"\n', ""), 19, "give either attention"),
        (
            ('score = ["additive", "dot"]', 'score = ["additive", "dot"]\nattention = "dot"'),
            15,
            "give either attention",
        ),
        (('attention = ["uniform", "none"]', 'attention = ["uniform", "nothing"]'), 12, "expected none, mean"),
        (('metrics = ["accuracy", "exact"]', 'metrics = ["acuracy"]'), 7, "metric of none"),
        (("seeds = 3", 'seeds = 3\njudges = ["oblation"]'), 7, "is no test"),
        (('"whole"', '"whole'), 2, "not TOML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_what_to_write(tmp_path, change, line, told):
    assert change[0] in WHOLE
    with pytest.raises(ValueError, match=r"study\.toml") as caught:
        read(tmp_path, WHOLE.replace(*change))
    assert told in str(caught.value)
    assert f"line {line}" in str(caught.value)


def test_the_line_of_an_entry_in_a_list_of_lines_is_its_own():
    text = 'name = "a"\nvariants = [\n    "dot",\n    "nonsense",\n]\n'
    assert line_of(text, ("variants", 1)) == 4
    assert line_of(text, ("variants",)) == 2


@pytest.mark.parametrize(
    "tasks, variants, told",
    [
        (["retrieval"], ["additve"], "additve"),
        (["retrieval"], ["dot", "dot+softmax"], "occurs twice"),
        (["gat"], ["dot"], "the task gat has no variant"),
        (["retrieval", "retrieval"], ["dot"], "two tasks have the same name"),
        (["retrieval", {"task": "module:"}], ["dot"], "module:function"),
    ],
)
def test_what_does_not_fit_together_is_refused(tasks, variants, told):
    with pytest.raises(ValueError, match=told):
        Study(name="a", tasks=tasks, variants=variants)


def test_a_function_takes_any_name_for_a_variant():
    study = Study(name="a", tasks=["trivial", {"task": "mine:run", "metrics": {"error": "lower"}}], variants=["x y"])
    assert list(study.variant_names().values()) == ["x y"]
    assert not study.parts()["mine:run"].measures["error"].higher
