"""The study files that come with the project: each is read, could show something, and names what its tasks know."""

from pathlib import Path

import pytest

from regard.studies.specification import Study
from regard.studies.statistics import check_power
from regard.studies.tasks import task_of

FILES = sorted((Path(__file__).parents[2] / "studies").rglob("*.toml"))
NAMES = [path.relative_to(path.parents[path.parts[::-1].index("studies") - 1]).as_posix() for path in FILES]


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_study_that_is_shipped_could_find_something(file):
    study = Study.read(file)
    comparisons = (len(study.variant_names()) - 1) * len(study.tasks)
    assert check_power(len(study.seeds), comparisons).reachable
    assert file.stem in study.name


@pytest.mark.parametrize("file", [path for path in FILES if path.parent.name == "full"], ids=lambda path: path.stem)
def test_the_full_setting_asks_what_the_small_one_asks_and_more(file):
    full, small = Study.read(file), Study.read(file.parents[1] / file.name)
    assert not any(task.small for task in full.tasks) and all(task.small for task in small.tasks)
    assert {task.name for task in small.tasks} <= {task.name for task in full.tasks}
    assert set(small.variant_names().values()) <= set(full.variant_names().values())
    assert full.baseline == small.baseline and full.device == "cuda" and small.device == "cpu"


def part(task: str, **options: object) -> dict[str, object]:
    return {"task": task, "small": True, "options": options, "metrics": {}, "drawn": True}


def test_a_task_with_names_of_its_own_takes_these_and_no_others():
    drugs = task_of(part("drugs", held_out="drugs"))
    assert drugs.canonical("gcn") == "gcn" and list(drugs.measures) == ["rmse", "pearson", "per_drug"]
    with pytest.raises(ValueError, match="the task drugs has no variant 'dot'; it has gat, gatv2"):
        drugs.canonical("dot")


def test_a_graph_with_one_split_is_the_same_for_every_seed_and_others_are_drawn():
    assert not task_of(part("gat", data="cora")).drawn and task_of(part("gat", data="csbm")).drawn
    assert task_of(part("gat", data="wisconsin")).drawn
    with pytest.raises(ValueError, match="the task gat has no data 'karate': expected one of cora"):
        task_of(part("gat", data="karate"))


def test_the_page_on_tuning_shows_the_files_of_the_walk_as_they_are():
    page = (FILES[0].parents[1] / "docs" / "studies" / "tuning.md").read_text()
    for name in ("own_layer.py", "own_layer.toml"):
        assert (FILES[0].parents[1] / "studies" / name).read_text().strip() in page


def test_the_layer_of_the_walk_is_the_largest_of_the_neighbours():
    import torch

    scope: dict[str, object] = {}
    exec((FILES[0].parents[1] / "studies" / "own_layer.py").read_text(), scope)
    layer = scope["MaxConv"](2, 3)
    x, edges = torch.tensor([[1.0, 0.0], [3.0, -5.0], [2.0, -1.0]]), torch.tensor([[1, 2], [0, 0]])
    wanted = layer.own(x[0]) + layer.others(torch.tensor([3.0, -1.0]))
    torch.testing.assert_close(layer(x, edges)[0], wanted)
