"""Known reasons: AUC by explanation, the best and the mean of them, beside chance that had the same choice."""

import math

import numpy as np
import pytest
import torch
from pytest import approx

pytest.importorskip("sklearn")

from regard.data import Example
from regard.judging.adapters.graph_adapter import on_graph, on_graphs
from regard.judging.attribution.edge_importance import degree_of_nodes, degree_of_units, gatt_of_nodes, mass
from regard.judging.tests.ground_truth import agreement, areas, best_and_mean, edge_gold, ground_truth
from regard.models import GAT
from regard.models.builders import graph_classifier

PATH = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
BOTH = torch.cat([PATH, PATH.flip(0)], 1)


def made(gold, label=1, edges=BOTH):
    return Example(torch.randn(5, 3), torch.tensor(label), gold=torch.tensor(gold).float(), edges=edges)


def judged(examples, classes=2):
    return on_graphs(graph_classifier(3, classes, dim=8, layers=2, heads=2).eval(), examples)


def truths(area):
    gold = np.array([[1, 0], [0, 1], [0, 1], [0, 0]])
    assert area([4.0, 3, 2, 1], gold) == approx((1.0, (1 + 2 / 4) / 2))
    assert area([1.0, 4, 4, 0], gold) == approx((1.0, (1 / 3 + 1) / 2))
    assert area([1.0, 1, 1, 1], gold) == (0.5, 0.5)  # ties
    assert area([4.0, 3, 2, 1], np.array([[0], [0], [1], [0]])) == approx((1 / 3, 1 / 3))
    assert all(map(math.isnan, area([1.0, 2], np.array([[1], [1]]))))
    assert all(map(math.isnan, area([1.0, 2], np.array([[0], [0]]))))
    assert area([4.0, 3, 2, 1], np.array([[1, 0], [0, 0], [0, 0], [0, 0]])) == (1.0, 1.0)  # an empty column is none


def test_the_best_of_several_explanations_counts():
    truths(best_and_mean)


MUTANTS = {
    "upside down": lambda scores, gold: best_and_mean(-np.asarray(scores), gold),
    "the first column": lambda scores, gold: best_and_mean(scores, gold[:, :1]),
    "their union": lambda scores, gold: best_and_mean(scores, gold.max(1, keepdims=True)),
    "marks flipped": lambda scores, gold: best_and_mean(scores, 1 - gold),
    "thresholded": lambda scores, gold: best_and_mean(np.asarray(scores) > 2, gold),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_mutant_of_the_area_is_seen(mutant):
    with pytest.raises(AssertionError):
        truths(MUTANTS[mutant])


def test_one_explanation_is_torch_geometrics_ground_truth_metric():
    metric = pytest.importorskip("torch_geometric.explain.metric")
    pytest.importorskip("torchmetrics")
    scores, gold = torch.rand(40), (torch.rand(40) > 0.6).long()
    theirs = metric.groundtruth_metrics(scores, gold, "auroc")
    assert best_and_mean(scores.numpy(), gold[:, None].numpy())[0] == approx(theirs, abs=1e-6)


def test_a_bond_is_a_reason_when_both_of_its_atoms_are():
    gold = torch.tensor([[1.0, 0], [1, 1], [0, 1], [0, 1], [0, 0]])
    units = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
    assert edge_gold(gold, BOTH, units, 4).tolist() == [[True, False], [False, True], [False, True], [False, False]]


def test_degree_and_chance_had_the_same_choice():
    star = torch.tensor([[1, 2, 3, 4, 0, 0, 0, 0], [0, 0, 0, 0, 1, 2, 3, 4]])
    examples = [made([[1], [0], [0], [0], [0]], edges=star) for _ in range(30)]
    many = [made(np.eye(5).tolist(), edges=star) for _ in range(30)]
    assert (areas(judged(examples), degree_of_nodes) == 1).all()
    for some, random in ((examples, 0.5), (many, 1.0)):  # the best of five columns is the top node's, whichever it is
        found = ground_truth(judged(some), {"degree again": degree_of_nodes})[0]
        assert found.baselines["degree"] == 1 and found.value == 1
        assert found.baselines["random"] == approx(random, abs=0.15)
    tail = made([[1], [1], [0], [0], [0]])
    adapter = judged([tail])
    assert degree_of_nodes(adapter, adapter.inputs([0])).tolist() == [1, 2, 2, 2, 1]
    assert degree_of_units(adapter, adapter.inputs([0]))[0, 1:].tolist() == [6, 8, 8, 6]
    assert areas(adapter, degree_of_units, "edges")[0, 0] == approx(0.5 / 3)  # bond 0-1 ties with 3-4, below two others


def test_a_molecule_without_the_reason_is_undefined_and_counted():
    adapter = judged([made([[1], [1], [0], [0], [0]]), made([[0]] * 5, label=0)])
    found = ground_truth(adapter) + ground_truth(adapter, level="edges")
    assert all((one.n, one.undefined) == (1, 1) for one in found)
    names = {one.name for one in found}
    assert {"AUC of readout on nodes, best explanation", "AUC of GAtt on edges, mean of the explanations"} <= names
    with pytest.raises(ValueError, match="carries its reason"):
        ground_truth(judged([Example(torch.randn(5, 3), torch.tensor(0), edges=BOTH)]))
    with pytest.raises(ValueError, match="'nodes' or 'edges'"):
        ground_truth(adapter, level="atoms")


def test_how_much_a_node_is_looked_at_goes_to_the_source():
    model, x = GAT(3, 2, 2, nheads=2).eval(), torch.randn(5, 3)
    adapter = on_graph(model, x, PATH, [4], hops=4, units="all")
    with torch.no_grad():
        _, maps = model(x, PATH, return_maps=True)
    inputs = adapter.inputs([0])
    wanted = sum((amap.edges().mean(0) for amap in maps), torch.zeros(4)).double() / 2
    loops = sum((amap.loops.mean(0) for amap in maps), torch.zeros(5)).double() / 2
    found = mass(adapter, inputs)
    assert found.tolist() == approx([*(loops[:4] + wanted).tolist(), float(loops[4])], abs=1e-6)
    a, b = (amap.mean(0) for amap in (torch.cat([m.edges(), m.loops], -1) for m in maps))
    tree = [0, 0, a[2] * b[3], a[3] * b[8] + a[7] * b[3] + b[3], a[8] * b[8] + b[8]]  # edges 2->3, 3->4, loops 3 and 4
    assert gatt_of_nodes(adapter, inputs).tolist() == approx([float(x) for x in tree], abs=1e-6)


def test_shares_with_a_sign_are_compared_by_rank():
    adapter = judged([made([[-3.0], [2], [1], [0], [-1]], label=1)], classes=0)
    same = lambda adapter, inputs: torch.tensor([-3.0, 2, 1, 0, -1])  # noqa: E731
    assert agreement(adapter, {"same": same})[0].value == approx(1)
    assert agreement(adapter, {"size": lambda *_: torch.tensor([9.0, 5, 2, 0, 2])}, magnitude=True)[0].value == approx(
        1
    )
    assert {one.name for one in agreement(adapter)} >= {"tau of gradient and each node's share"}
