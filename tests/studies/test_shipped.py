"""The study files that come with the project: each is read, could show something, and names what its tasks know."""

from pathlib import Path

import pytest

from regard.studies.specification import Study
from regard.studies.statistics import foretell
from regard.studies.tasks import task_of

FILES = sorted((Path(__file__).parents[2] / "studies").rglob("*.toml"))
NAMES = [path.relative_to(path.parents[path.parts[::-1].index("studies") - 1]).as_posix() for path in FILES]


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_study_that_is_shipped_could_find_something(file):
    study = Study.read(file)
    comparisons = (len(study.ways()) - 1) * len(study.tasks)
    assert foretell(len(study.seeds), comparisons).reachable
    assert file.stem in study.name


@pytest.mark.parametrize("file", [path for path in FILES if path.parent.name == "full"], ids=lambda path: path.stem)
def test_the_full_setting_asks_what_the_small_one_asks_and_more(file):
    full, small = Study.read(file), Study.read(file.parents[1] / file.name)
    assert not any(task.small for task in full.tasks) and all(task.small for task in small.tasks)
    assert {task.name for task in small.tasks} <= {task.name for task in full.tasks}
    assert set(small.ways().values()) <= set(full.ways().values())
    assert full.baseline == small.baseline and full.device == "cuda" and small.device == "cpu"


def part(task: str, **options: object) -> dict[str, object]:
    return {"task": task, "small": True, "options": options, "metrics": {}, "drawn": True}


def test_a_task_with_names_of_its_own_takes_these_and_no_others():
    drugs = task_of(part("drugs", held_out="drugs"))
    assert drugs.checked("gcn") == "gcn" and list(drugs.measures) == ["rmse", "pearson", "per_drug"]
    with pytest.raises(ValueError, match="the task drugs has no variant 'dot'; it has gat, gatv2"):
        drugs.checked("dot")


def test_a_graph_with_one_split_is_the_same_for_every_seed_and_others_are_drawn():
    assert not task_of(part("gat", data="cora")).drawn and task_of(part("gat", data="csbm")).drawn
    assert task_of(part("gat", data="wisconsin")).drawn
    with pytest.raises(ValueError, match="the task gat has no data 'karate': expected one of cora"):
        task_of(part("gat", data="karate"))
