"""Stacks of one kind of layer, and networks over several relations."""

import pytest
import torch
from torch.testing import assert_close

from regard.models.deep_gnn import KINDS, DeepGNN
from regard.models.gcn import GCNConv
from regard.models.relational_gnn import RelationalGNN

EDGES = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 1]])


def test_a_gcn_layer_is_torch_geometrics():
    nn = pytest.importorskip("torch_geometric.nn")
    mine, theirs = GCNConv(3, 4), nn.GCNConv(3, 4)
    theirs.load_state_dict({"lin.weight": mine.lin.weight, "bias": mine.bias})
    x = torch.randn(5, 3)  # node 4 has no edge
    assert_close(mine(x, EDGES), theirs(x, EDGES))


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_may_stand_in_any_order_and_only_an_mlp_does_without_edges(kind):
    model, x, order = DeepGNN(3, 8, 2, kind, layers=2, heads=1).eval(), torch.randn(4, 3), torch.tensor([2, 0, 3, 1])
    made, place = model(x, EDGES), order.argsort()
    assert_close(model(x[order], place[EDGES]), made[order])
    assert torch.allclose(model(x, EDGES[:, :2]), made) is (kind == "mlp")
    assert_close(made.exp().sum(-1), torch.ones(4)) and len(model.hidden(x, EDGES)) == 3


def test_uniform_weights_are_the_mean_and_a_residual_adds():
    model, x = DeepGNN(3, 8, 2, "mean", layers=1, residual=True), torch.randn(4, 3)
    first, second = model.hidden(x, EDGES)
    heard = model.layers[0].lin(first)
    mean = torch.stack([heard[[0, 2, 3]].mean(0), heard[[1, 0, 3]].mean(0), heard[[2, 1]].mean(0), heard[3]])
    assert_close(second, torch.nn.functional.elu(mean + model.layers[0].bias) + first)
    with pytest.raises(ValueError, match="expected one of gat"):
        DeepGNN(3, 8, 2, "sage")
    with pytest.raises(ValueError, match="multiple"):
        DeepGNN(3, 8, 2, heads=3)


@pytest.mark.parametrize("kind", ["rgat", "simple_hgn", "gat", "mean", "mlp"])
def test_a_relation_is_seen_by_those_that_see_it(kind):
    model, x, relation = RelationalGNN(3, 8, 2, kind, heads=2).eval(), torch.randn(4, 3), torch.tensor([0, 1, 0, 1, 0])
    same = torch.allclose(model(x, (EDGES, relation)), model(x, (EDGES, 1 - relation)))
    assert same is (kind in ("gat", "mean", "mlp"))
    if kind != "mlp":
        weights = model.edge_weights(x, (EDGES, relation))
        assert_close(torch.zeros(4).index_add(0, EDGES[1], weights), torch.tensor([1.0, 1, 1, 0]))
    with pytest.raises(ValueError, match="expected one of rgat"):
        RelationalGNN(3, 8, 2, "han")
