"""Files that earlier versions wrote open and give the same numbers.

tests/fixtures/README.md tells what is there and which commit wrote it. Only public names and the command line are used
here: what lies inside may move, what people have on their disks stays readable.
"""

import gzip
import inspect
import io
import json
import os
import shutil
import sqlite3
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.fixtures import plans, public_names
from torch import Tensor
from torch.testing import assert_close
from typer.testing import CliRunner

import regard
from regard.cli.app import app

HERE = Path(__file__).parent / "fixtures"
SRC = Path(regard.__file__).parents[1]


def numbers(path: Path) -> dict[str, Tensor]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def call(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.stdout


def test_all_fixtures_together_stay_small():
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.suffix != ".pyc" and path.is_file()) < 1.5e6


# records

RECORDS = (
    "transformer",
    "attention",
    "weights",
    "stats",
    "topk",
    "gradients",
    "steps",
    "kernel",
    "written",
    "graph",
    "graph_of_torch_geometric",
)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_gives_the_numbers_it_was_written_with(name):
    rec, want = regard.load(HERE / "records" / f"{name}.regard"), numbers(HERE / "records" / f"{name}.npz")
    parts = {"maps": rec.maps, "stats": rec.stats, "gradients": rec.gradients}
    assert {key.rpartition("|")[0] for key in want} == {f"{part}|{site}" for part in parts for site in parts[part]}
    for key, x in want.items():
        part, site, what = key.split("|")
        found = getattr(parts[part][site], what)
        found = found() if callable(found) else found.weight if what == "strongest" else found
        assert_close(found.float(), x, msg=lambda said, key=key: f"{key}: {said}")
    for site, amap in rec.maps.items():
        weights = want[f"maps|{site}|weights"]
        assert_close(amap.row(-1).float(), weights[..., -1, :])
        assert_close(amap.mass().float(), weights.sum(-2))
        assert amap.lead == tuple(weights.shape[: len(amap.lead)])


def test_every_plan_of_attention_has_its_map_in_a_record():
    sites = list(regard.load(HERE / "records" / "attention.regard").maps)
    assert sites == ["".join(c if c.isalnum() else "_" for c in name) for name in plans.PLANS]


def test_a_record_keeps_labels_versions_and_what_the_model_was():
    rec = regard.load(HERE / "records" / "transformer.regard")
    rows = [list(names) for names in rec.maps["layers.1.self_attn:1"].rows]
    assert rows == [["The", "cat", "sat", "on", "it", "."], ["A", "dog", "ran", ".", "-", "-"]]
    assert rec.about["class"] == "TransformerEncoder" and rec.made["torch"].startswith("2.13") and not rec.missed
    assert list(regard.load(HERE / "records" / "graph.regard").maps["gat_conv"].rows) == list("abcdef")
    casting = regard.load(HERE / "records" / "steps.regard").casting
    assert casting.dtype == "bfloat16" and casting.largest > 0


def test_a_record_round_trips(tmp_path):
    rec, want = regard.load(HERE / "records" / "attention.regard"), numbers(HERE / "records" / "attention.npz")
    again = regard.load(rec.save(tmp_path / "again.regard"))
    for site, amap in again.maps.items():
        assert_close(amap.weights(), want[f"maps|{site}|weights"])


@pytest.mark.parametrize("name", RECORDS)
def test_regard_info_describes_a_record(name):
    assert name in call("info", str(HERE / "records" / f"{name}.regard"))


# exported programs


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."),
    reason=f"The programs were exported by torch 2.13, and torch {torch.__version__} need not read those of others.",
)
@pytest.mark.parametrize("name", ["plans", "whole", "lengths"])
def test_an_exported_program_is_loaded_and_gives_the_same_numbers(name):
    if name != "lengths":
        pytest.importorskip("numba", reason="numba runs attention over edges on a CPU: pip install 'regard[graph]'")
    file = io.BytesIO(gzip.decompress((HERE / "programs" / f"{name}.pt2.gz").read_bytes()))
    want = numbers(HERE / "programs" / f"{name}.npz")
    with torch.no_grad():
        found = torch.export.load(file).module()(want.pop("given"))
    said = {f"out/{key}": x.out if isinstance(x, regard.Attended) else x for key, x in found.items()}
    said |= {f"map/{key}": x.map.weights() for key, x in found.items() if isinstance(x, regard.Attended)}
    assert said.keys() == want.keys()
    for key, x in want.items():
        assert_close(said[key], x, msg=lambda text, key=key: f"{key}: {text}")


# weights

CASES = {
    "attention": {name: (plan.layer, plan.call) for name, plan in plans.PLANS.items()},
    "graph": {name: (case.make, case.call) for name, case in plans.LAYERS.items()},
    "graph_transformers": {name: (case.make, case.call) for name, case in plans.GRAPH_TRANSFORMERS.items()},
    "models": {name: (case.make, case.call) for name, case in plans.MODELS.items()},
}


@pytest.mark.parametrize("part", CASES)
def test_layers_load_old_state_dicts_and_give_the_same_numbers(part):
    load_file = pytest.importorskip("safetensors.torch").load_file
    state, want = load_file(HERE / "states" / f"{part}.safetensors"), numbers(HERE / "states" / f"{part}.npz")
    given, seen = want.pop("given"), set()
    for name, (make, run) in CASES[part].items():
        mine = {key: x for key, x in state.items() if key.startswith(f"{name}/")}
        layer = make().eval()
        layer.load_state_dict({key.removeprefix(f"{name}/"): x for key, x in mine.items()})
        with torch.no_grad():
            found = plans.tensors_of(run(layer, given))
        for key, x in found.items():
            assert_close(x.to(want[name + key].dtype), want[name + key], msg=lambda text, name=name: f"{name}: {text}")
        seen |= {name + key for key in found}
    assert seen == want.keys()
    assert {key.partition("/")[0] for key in state} <= CASES[part].keys()


def test_every_graph_layer_has_its_weights_here():
    layers = {name for name in regard.nn.graph.__all__ if hasattr(getattr(regard.nn, name), "forward")}
    assert layers - {name.partition(",")[0] for name in (*plans.LAYERS, *plans.GRAPH_TRANSFORMERS)} == set()


# runs


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """A copy of what was written, since those who open it may write there."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'regard[train]'")
    monkeypatch.setenv("REGARD_DATA", str(HERE / "runs" / "data"))
    return shutil.copytree(HERE / "runs", tmp_path / "runs")


def test_a_trained_run_is_opened_and_answers_as_it_did(runs):
    run, want = regard.models.open_run(runs / "retrieval"), numbers(runs / "retrieval.npz")
    assert (run.experiment.name, run.attention, run.seed) == ("retrieval", "additive", 0)
    from regard.data import collate

    batch = collate(run.task.test[:8])
    assert torch.equal(batch.inputs, want["inputs"])
    with torch.no_grad():
        answer = run.model(batch)
    assert_close(answer.out, want["out"])
    assert_close(answer.mean_weights(), want["weights"])


def test_a_finished_run_is_not_retrained(runs):
    words = ("retrieval", "--small", "--seeds", "1", "--attention", "additive", "--alone")
    kept = json.loads((runs / "retrieval" / "results.json").read_text())
    file = runs / "retrieval" / "additive-0" / "last.safetensors"
    before = file.stat().st_mtime_ns
    found = json.loads(call("train", *words, "--json", "--out", str(runs / "retrieval")))
    assert found["rows"][0]["kept"] == kept["rows"][0]["kept"] and file.stat().st_mtime_ns == before
    assert found["rows"][0]["runs"][0] == pytest.approx(kept["rows"][0]["runs"][0])


TESTS = "task,permutation,layers"


def test_a_network_on_nodes_is_judged_as_it_was(runs, tmp_path):
    pytest.importorskip("scipy", reason="scipy is not installed: pip install 'regard[judge]'")
    from regard.judging import Report

    text = call("judge", str(runs / "nodes"), "--tests", TESTS, "--json", "--out", str(tmp_path / "new"))
    new = Report.from_json((tmp_path / "new" / "report.json").read_text(encoding="utf-8"))
    old = Report.from_json((runs / "report" / "report.json").read_text(encoding="utf-8"))
    assert [test.name for test in new.tests] == [test.name for test in old.tests] == TESTS.split(",")
    assert new.about["weights"] == old.about["weights"] and new.about["data hash"] == old.about["data hash"]
    for one, other in zip(new.findings, old.findings, strict=True):
        assert (one.name, one.unit, one.better) == (other.name, other.unit, other.better)
    assert new["task"].findings[0].value == pytest.approx(old["task"].findings[0].value)
    written = json.loads((runs / "report" / "report.json").read_text(encoding="utf-8"))
    assert new.findings[0].says in text and holds(json.loads(old.json()), written)


def holds(now: object, before: object) -> bool:
    """Whether all that was written before is there now; a later version may say more."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(key in now and holds(now[key], value) for key, value in before.items())
    if isinstance(before, list) and isinstance(now, list):
        return len(now) == len(before) and all(holds(a, b) for a, b in zip(now, before, strict=True))
    return now == before


def test_finished_tests_are_read_from_the_folder_of_a_report(runs):
    versions = json.loads((runs / "report" / "report.json").read_text(encoding="utf-8"))["about"]["versions"]
    here = {name: regard.__version__ if name == "regard" else version(name) for name in versions}
    if here != versions:
        pytest.skip(f"These tests were judged with {versions}: with other versions they are judged anew.")
    file = runs / "report" / "tests" / "permutation.json"
    kept = json.loads(file.read_text(encoding="utf-8"))
    kept["kept"]["findings"][0]["says"] = "This was read, not judged."
    file.write_text(json.dumps(kept), encoding="utf-8")
    assert "This was read, not judged." in call(
        "judge", str(runs / "nodes"), "--tests", TESTS, "--json", "--out", str(runs / "report")
    )


# a study


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    pytest.importorskip("sqlalchemy", reason="studies keep their trials with SQLAlchemy: pip install 'regard[studies]'")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SRC), str(HERE), os.environ.get("PYTHONPATH", "")]))
    shutil.copy(HERE / "study" / "store.sqlite", tmp_path / "store.sqlite")
    return tmp_path


def statuses(folder: Path) -> dict[tuple[str, str, int], str]:
    with sqlite3.connect(folder / "store.sqlite") as store:
        rows = store.execute("SELECT task, variant, seed, status FROM regard_trials").fetchall()
    return {row[:3]: row[3] for row in rows}


def test_an_interrupted_study_has_a_status_and_a_report(study):
    said = json.loads(call("study", "status", str(study), "--json"))
    assert said["trials"] == {"done": 12, "running": 1, "waiting": 4, "failed": 1}
    assert [(one["task"], one["variant"], one["seed"]) for one in said["failed"]] == [("own", "uniform", 0)]
    assert "the variant uniform has no seed 0" in said["failed"][0]["error"]
    whole = regard.studies.Results.from_json((HERE / "study" / "results.json").read_text(encoding="utf-8"))
    found = regard.studies.Results.from_json(call("study", "report", str(study), "--json"))
    assert found.measures == whole.measures and found.judged == [one for one in whole.judged if one in found.judged]
    assert len(found.missing) == 6 and all(row in whole.rows for row in found.rows) and found.trivial == whole.trivial


def test_a_study_resumes_with_the_tasks_of_its_store(study):
    pytest.importorskip("lightning", reason="lightning is not installed: pip install 'regard[studies]'")
    pytest.importorskip("numba", reason="numba runs attention over edges on a CPU: pip install 'regard[graph]'")
    open_before = {key for key, status in statuses(study).items() if status in ("waiting", "running")}
    assert {task for task, _, _ in open_before} == {"trivial", "own", "retrieval", "gat"}
    text = call("study", "resume", str(study), "--workers", "1", "--quiet", "--json", code=1)  # one has failed
    after = statuses(study)
    assert {after[key] for key in open_before} == {"done"} and after["own", "uniform", 0] == "failed"
    whole = regard.studies.Results.from_json((HERE / "study" / "results.json").read_text(encoding="utf-8"))
    found = regard.studies.Results.from_json(text)
    numbers_of = {(row.task, row.variant, row.seed, row.metric): row.value for row in found.rows}
    assert numbers_of.keys() == {(row.task, row.variant, row.seed, row.metric) for row in whole.rows}
    for row in whole.rows:  # what is computed by arithmetic alone is the same wherever it runs
        if row.task in ("trivial", "own") or (row.task, row.variant, row.seed) not in open_before:
            assert numbers_of[row.task, row.variant, row.seed, row.metric] == row.value
    assert [(one.task, one.variant, one.seed) for one in found.missing] == [("own", "uniform", 0)]


# names


def names_before() -> dict:
    return json.loads((HERE / "public_names.json").read_text(encoding="utf-8"))


def missing(before: dict, now: dict) -> list[str]:
    return [f"{key}: {one}" for key, listed in before.items() for one in listed if one not in now.get(key, ())]


@pytest.fixture(scope="module")
def names_now() -> dict:
    for package in ("sqlalchemy", "pydantic"):
        pytest.importorskip(package, reason="Studies are not installed: pip install 'regard[studies]'")
    return public_names.names()


def test_every_old_public_name_exists_and_is_listed(names_now):
    assert missing(names_before()["packages"], names_now["packages"]) == []


@pytest.mark.parametrize("package", public_names.PACKAGES)
def test_public_names_keep_their_arguments_and_methods(names_now, package):
    """An argument may also be taken by **options: an old name that still works and warns."""
    gone = []
    for name, before in names_before()["packages"][package].items():
        thing = getattr(import_module(package), name)
        for one in set(before) - set(names_now["packages"][package].get(name, ())):
            kept = hasattr(thing, one[1:]) if one.startswith(".") else takes_any(thing)
            gone += [] if kept else [f"{name}: {one}"]
    assert gone == []


def takes_any(thing: object) -> bool:
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in inspect.signature(thing).parameters.values())


def test_registered_names_still_resolve(names_now):
    assert missing(names_before()["known by a name"], names_now["known by a name"]) == []


def test_every_old_command_keeps_its_options(names_now):
    assert set(names_before()["commands"]) - set(names_now["commands"]) == set()
    assert missing(names_before()["commands"], names_now["commands"]) == []
