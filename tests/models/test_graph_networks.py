"""Graph networks by name: the peers' numbers where there are any, batches, and training of each kind."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.graph.parity import assert_same, features
from torch.testing import assert_close
from typer.testing import CliRunner

from regard.cli.app import app
from regard.data import NodeTask
from regard.data.batch import Example, collate
from regard.lab.tasks.graphs.graph_classification import Molecules
from regard.models import GraphNetwork, Polynormer, SGFormer
from regard.models.builders import graph_classifier
from regard.models.graph_networks.layers import LAYERS, GraphStep
from regard.models.graph_networks.sage import SAGEConv
from regard.models.training.node_checkpoint import open_nodes, save_run
from regard.models.training.node_training import KINDS, Recipe, build, fit, train

INDEX = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 6], [1, 0, 2, 1, 4, 3, 6, 5]])
BATCH = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3])  # the last graph is one node
EACH = [(slice(0, 3), INDEX[:, :4]), (slice(3, 5), INDEX[:, 4:6] - 3), (slice(5, 7), INDEX[:, 6:] - 5)]
every = pytest.mark.parametrize("kind", LAYERS)


def task(nodes: int = 60) -> NodeTask:
    """Classes by features and by rings of one class."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(nodes) % 3
    x = torch.nn.functional.one_hot(y, 6).float() + 0.7 * torch.randn(nodes, 6, generator=draw)
    on = (torch.arange(nodes) + 3) % nodes
    index = torch.cat([torch.stack([torch.arange(nodes), on]), torch.stack([on, torch.arange(nodes)])], 1)
    part = torch.arange(nodes) // 3 % 3
    return NodeTask("rings", x, y, index, part == 0, part == 1, part == 2)


def written(one: NodeTask, path: Path) -> None:
    parts = {f"{part}_mask": getattr(one, part).numpy() for part in ("train", "val", "test")}
    np.savez(path, x=one.x.numpy(), edge_index=one.edge_index.numpy(), y=one.y.numpy(), **parts)


def test_sage_is_the_peers() -> None:
    peers = pytest.importorskip("torch_geometric.nn")
    assert_same(SAGEConv(5, 3), peers.SAGEConv(5, 3), lambda layer, x: layer(x, INDEX), [features(8, 5)])


@pytest.mark.parametrize("aggregate", ["add", "cat"])
def test_sgformer_is_the_peers_on_one_graph(aggregate: str) -> None:
    """In single precision, as the peer's attention runs in no other."""
    models = pytest.importorskip("torch_geometric.nn.models")
    given: dict[str, Any] = {"trans_num_layers": 1, "gnn_num_layers": 2, "aggregate": aggregate}
    peer, mine = models.SGFormer(5, 4, 3, **given).eval(), SGFormer(5, 4, 3, **given).eval()
    mine.load_state_dict(peer.state_dict())
    x = features(8, 5).float()
    assert_close(mine(x, INDEX), peer(x, INDEX, torch.zeros(8).long()), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("globally", [True, False])
@pytest.mark.parametrize("options", [{}, {"pre_ln": True, "post_bn": False, "local_attn": True, "qk_shared": True}])
def test_polynormer_is_the_peers_on_one_graph(globally: bool, options: dict[str, Any]) -> None:
    models = pytest.importorskip("torch_geometric.nn.models")
    given = {"local_layers": 2, "global_layers": 2, **options}
    peer, mine = models.Polynormer(5, 4, 3, **given).eval(), Polynormer(5, 4, 3, **given).eval()
    mine.load_state_dict(peer.state_dict())
    peer._global = mine.attend_globally = globally
    x = features(8, 5).float()
    assert_close(mine(x, INDEX), peer(x, INDEX, torch.zeros(8).long()), atol=1e-5, rtol=1e-5)


@every
def test_a_batch_of_graphs_is_each_by_itself(kind: str) -> None:
    torch.manual_seed(0)
    net = GraphNetwork(5, 8, 3, kind, layers=2, heads=2, norm="layer").double().eval()
    x = features(8, 5)
    together = net(x, INDEX, BATCH, 4)
    for nodes, index in EACH:
        assert_close(net(x[nodes], index), together[nodes])
    assert together.isfinite().all()


@every
def test_every_layer_is_trained_by_its_name(kind: str) -> None:
    assert kind in KINDS
    recipe = Recipe(hidden=4, heads=2, dropout=0.1, rate=0.02, epochs=15, patience=15, norm="layer")
    _, found = train(kind, task(), 0, recipe)
    assert found.test > 0.45  # a third of the nodes has each class


@every
def test_depth_norm_and_residuals_are_choices_for_every_kind(kind: str) -> None:
    x = features(8, 5).float()
    for layers, norm, residual in ((0, "layer", True), (3, "batch", False), (1, "none", True)):
        net = GraphNetwork(5, 8, 3, kind, layers, 2, norm=norm, residual=residual)
        assert net(x, INDEX).shape == (8, 3) and len(net.steps) == layers


def test_the_papers_networks_are_those_of_a_plain_recipe() -> None:
    from regard.models import GAT

    one = task()
    assert isinstance(build("gat", one, Recipe()), GAT)
    assert isinstance(build("gat", one, Recipe(layers=3)), GraphNetwork)
    assert isinstance(build("gps", one, Recipe()), GraphNetwork)


def test_maps_of_a_network_stand_on_the_callers_edges() -> None:
    net = GraphNetwork(5, 8, 3, "gatv2", layers=2, heads=2).eval()
    _, maps = net(features(8, 5).float(), INDEX, return_maps=True)
    assert [amap.edges().shape for amap in maps] == [(2, 8), (2, 8)]


def test_the_same_seed_gives_the_same_bits() -> None:
    recipe = Recipe(hidden=4, heads=2, epochs=3, norm="layer")
    first, second = (train("exphormer", task(), 1, recipe)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_saved_network_is_built_by_its_own_recipe(tmp_path) -> None:
    one = task()
    written(one, tmp_path / "rings.npz")
    from regard.data.readers.graph_file import read_graph

    own = read_graph(tmp_path / "rings.npz")
    recipe = replace(Recipe(hidden=4, heads=2, epochs=2), layers=3, norm="batch")
    model, _ = train("gps", own, 0, recipe)
    save_run(tmp_path, own, "gps", 0, model, recipe)
    again = open_nodes(tmp_path / "gps-0").model
    model.eval()
    assert_close(again(own.x, own.edge_index), model(own.x, own.edge_index))


def test_unknown_kinds_are_answered_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="expected one of mlp, gcn, sage"):
        GraphStep("gsp", 8)
    with pytest.raises(ValueError, match="exphormer"):
        train("gsp", task())


def test_the_command_trains_networks_by_name(tmp_path) -> None:
    one = task()
    written(one, tmp_path / "rings.npz")
    given = [
        "train",
        "nodes",
        str(tmp_path / "rings.npz"),
        "--seeds",
        "1",
        "--epochs",
        "2",
        "--width",
        "8",
        "--heads",
        "2",
    ]
    shown = CliRunner().invoke(app, [*given, "--model", "gps", "--model", "sage", "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)["results"]
    assert [one["kind"] for one in found] == ["gps", "sage"]
    wrong = CliRunner().invoke(app, [*given, "--model", "gsp"])
    assert wrong.exit_code == 1 and "expected one of" in wrong.stderr


def test_fit_takes_a_network_of_ones_own() -> None:
    found = fit(SGFormer(6, 8, 3), task(), Recipe(epochs=2))
    assert 0 <= found.test <= 1


def small_graph(nodes: int, y: int) -> Example:
    ring = torch.arange(nodes)
    index = torch.cat([torch.stack([ring, (ring + 1) % nodes]), torch.stack([(ring + 1) % nodes, ring])], 1)
    return Example(features(nodes, 5).float(), torch.tensor(y), edges=index)


@every
def test_whole_graphs_are_classified_by_every_layer(kind: str) -> None:
    torch.manual_seed(0)
    model = graph_classifier(5, 3, dim=8, layers=2, heads=2, network=kind).eval()
    examples = [small_graph(4, 0), small_graph(7, 1), small_graph(3, 2)]
    together = model(collate(examples)).out
    for place, one in enumerate(examples):
        assert_close(model(collate([one])).out[0], together[place], atol=1e-5, rtol=1e-5)
    loss = torch.nn.functional.cross_entropy(model.train()(collate(examples)).out, torch.arange(3))
    grads = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    assert all(grad.isfinite().all() for grad in grads if grad is not None)


def test_tasks_on_whole_graphs_take_a_network_by_name() -> None:
    with pytest.raises(ValueError, match="network='gsp': expected one of mlp, gcn"):
        Molecules(True, network="gsp")
    assert Molecules(True, network="gps").network == "gps"
