"""regard judge on graph networks that regard train left: whole graphs, and the nodes of one."""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from typer.testing import CliRunner

from regard.cli.app import app
from regard.cli.inputs.judge_inputs import ready
from regard.data import collate, planetoid
from regard.data.registry import TASKS
from regard.models.training import checkpoint
from regard.models.training.node_checkpoint import open_nodes, save_run
from regard.models.training.node_training import Recipe, train
from regard.models.training.run_checkpoint import describe

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


def call(*arguments: object):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def motifs(tmp_path):
    """A run of motifs that was not trained: it looks somewhere, and that is judged."""
    experiment = TASKS["motifs"](True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = experiment.model(experiment.load(0), "additive")
    describe(tmp_path / "run" / "additive-0", experiment, "additive", 0)
    checkpoint.save_best(tmp_path / "run" / "additive-0" / "last.safetensors", model)
    return tmp_path / "run", model.eval(), experiment.load(0)


def test_graphs_are_judged_by_erasure_fidelity_and_their_known_reason(motifs, tmp_path):
    folder, model, task = motifs
    tests = "task,permutation,faithfulness,fidelity,reasons,removals,rationales"
    said = call("judge", folder, "--tests", tests, "--limit", 6, "-o", tmp_path / "report", "--json")
    assert said.exit_code == 0, said.output
    report = json.loads(said.stdout)
    found = {test["name"]: test for test in report["tests"]}
    some = [task.test[place * len(task.test) // 6] for place in range(6)]
    with torch.no_grad():
        right = (model(collate(some)).out.argmax(-1) == torch.stack([one.target for one in some])).double().mean()
    accuracy = found["task"]["findings"][0]
    assert accuracy["value"] == pytest.approx(float(right)) and "counts of nodes" in accuracy["baselines"]
    assert found["fidelity"]["findings"] and found["reasons"]["findings"][0]["n"] == 6
    assert "sum to one" in found["permutation"]["left_out"] and "deleted" in found["removals"]["left_out"]
    assert report["about"]["removal"] == "delete" and report["rows"] == []
    assert "May the attention of motifs" in (tmp_path / "report" / "report.html").read_text()


def test_units_are_called_by_the_nodes_that_they_join(motifs):
    adapter, _ = ready(str(motifs[0]), limit=2)
    for at, one in enumerate((motifs[2].test[0], motifs[2].test[100])):
        ends = {tuple(sorted(pair)) for pair in one.edges.T.tolist()}
        title, *words = adapter.instances[at].words
        assert title == f"graph {at}" and sorted(words) == sorted(f"{a}-{b}" for a, b in ends)


def test_texts_are_left_out_of_what_is_asked_of_edges(tmp_path):
    from tests.judging.test_suite import by_name, marked

    from regard.judging.suite import run

    for name in ("fidelity", "reasons"):
        assert "words" in run(by_name(name), marked(count=2)).left_out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--data", "sst"], "judged on its own test part, motifs"),
        (["--removal", "mask"], "can only be deleted"),
        (["--layer", "rollout"], "expected the number of a layer or 'mean'"),
    ],
    ids=["data", "removal", "layer"],
)
def test_what_a_graph_cannot_be_asked_is_a_sentence(motifs, tmp_path, options, sentence):
    said = call("judge", motifs[0], "-o", tmp_path / "r", *options)
    assert said.exit_code == 1 and sentence in " ".join(said.output.split())


@pytest.fixture
def cora(tmp_path, monkeypatch):
    """Thirty papers of two classes on a ring, of which the last three are cited by nobody."""
    nodes, draw = 30, np.random.default_rng(0)
    ring = np.arange(nodes - 3)
    edges = np.stack([np.r_[ring, np.roll(ring, 1)], np.r_[np.roll(ring, 1), ring]])
    parts = {f"{part}_mask": np.arange(nodes) % 3 == place for place, part in enumerate(("train", "val", "test"))}
    y = np.arange(nodes) // 15
    (tmp_path / "planetoid").mkdir()
    np.savez(
        tmp_path / "planetoid" / "cora.npz",
        x_data=draw.random(2 * nodes).astype(np.float32) + 0.1,
        x_indices=np.stack([y, np.full(nodes, 2)], 1).ravel(),
        x_indptr=2 * np.arange(nodes + 1),
        x_shape=np.array([nodes, 3]),
        y=y,
        edge_index=edges,
        **parts,
    )
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setattr("regard.models.training.node_training.recipe_for", lambda name: Recipe(epochs=20))
    return planetoid("cora")


def test_a_graph_network_that_was_kept_says_what_it_said(cora, tmp_path):
    model, _ = train("gat", cora, 3, Recipe(epochs=4))
    save_run(tmp_path / "kept", cora, "gat", 3, model)
    again = open_nodes(tmp_path / "kept" / "gat-3")
    assert again.seed == 3 and again.kind == "gat"
    with torch.no_grad():
        assert_close(again.model(cora.x, cora.edge_index), model.eval()(cora.x, cora.edge_index), rtol=0, atol=0)


def test_nodes_are_judged_among_those_that_cite_them_beside_an_mlp(cora, tmp_path):
    said = call("train", "gat", "--data", "cora", "--seeds", 1, "--alone", "--out", tmp_path / "kept", "--json")
    assert said.exit_code == 0, said.output
    reached = json.loads(said.stdout)["results"][0]["test"][0] / 100
    said = call("judge", tmp_path / "kept", "--tests", "task,permutation,reasons", "-o", tmp_path / "r", "--json")
    assert said.exit_code == 0, said.output
    report = json.loads(said.stdout)
    accuracy = report["tests"][0]["findings"][0]
    assert accuracy["n"] == 9 and report["about"]["model"] == "gat on cora"  # of ten, one is cited by nobody
    whole = 9 * accuracy["value"]
    assert any(round(10 * reached) == round(whole) + alone for alone in (0, 1))
    assert "MLP without edges" in accuracy["baselines"]
    assert report["tests"][1]["findings"] and "reason" in report["tests"][2]["left_out"]
    adapter, _ = ready(str(tmp_path / "kept"))
    assert adapter.instances[0].words == ("node 2", "3 to 2", "1 to 2")


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({"nodes": "cora", "kind": "os.system", "seed": 0}, "describes no run"),
        ({"nodes": ["cora"], "kind": "gat", "seed": 0}, "describes no run"),
        ({"nodes": "../secrets", "kind": "gat", "seed": 0}, "expected one of"),
        ({"nodes": "cora", "kind": "mlp", "seed": 0}, "its weights do not fit"),
    ],
    ids=["kind", "type", "path", "weights"],
)
def test_a_description_that_was_changed_builds_nothing(cora, tmp_path, about, sentence):
    model, _ = train("gat", cora, 0, Recipe(epochs=2))
    save_run(tmp_path / "kept", cora, "gat", 0, model)
    (tmp_path / "kept" / "gat-0" / "run.json").write_text(json.dumps(about))
    said = call("judge", tmp_path / "kept", "-o", tmp_path / "r")
    assert said.exit_code == 1 and sentence in " ".join(said.output.split())


def test_a_model_that_was_not_trained_here_needs_data(tmp_path):
    from tests.small_models import saved

    (tmp_path / "model").mkdir()
    said = call("judge", saved(tmp_path / "model", "BertForSequenceClassification"), "-o", tmp_path / "r")
    assert said.exit_code == 1 and "give --data" in " ".join(said.output.split())
