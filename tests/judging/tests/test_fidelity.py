"""Fidelity of edges: by hand, beside torch_geometric where both remove alike, and broken on purpose."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pytest import approx
from torch import nn
from torch.testing import assert_close

from regard.judging.adapters.graph_adapter import on_graph
from regard.judging.attribution.edge_importance import by_rivals, gatt_of_units, layers_of, of_layer, relative
from regard.judging.tests.fidelity import characterisation, fidelity, kept_and_gone
from regard.models import GAT
from regard.nn import GATConv

STAR = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]])


class Sum(nn.Module):
    """The logit of class 1 is the sum of what the neighbours say."""

    def forward(self, x, edge_index):
        return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def scored(*scores):
    """A measure that says these numbers of the units, in their order."""
    return lambda adapter, inputs: torch.tensor([[0.0, *scores]], dtype=torch.float64).expand(inputs.real.shape)


def star(label=None):
    said = torch.tensor([[9.0], [3], [-1], [0.5], [-2]])  # nodes 1 to 4 speak to node 0: together 0.5
    return on_graph(Sum(), said, STAR, [0], None if label is None else torch.full((5,), label))


def test_a_star_by_hand():
    found = kept_and_gone(star(), scored(4, 3, 2, 1), share=0.5)[0]  # keeps 3 and -1
    assert found == approx([sigmoid(0.5) - sigmoid(-1.5), sigmoid(0.5) - sigmoid(2), 1, 0, 0.5])
    found = kept_and_gone(star(), scored(1, 2, 2, 3), share=0.25)[0]  # keeps -2 alone
    assert found == approx([sigmoid(0.5) - sigmoid(2.5), sigmoid(0.5) - sigmoid(-2), 0, 1, 0.75])


def test_a_phenomenon_is_about_the_label_and_a_model_about_its_prediction():
    wrong = kept_and_gone(star(label=0), scored(4, 3, 2, 1), share=0.5, kind="phenomenon")[0]
    assert wrong == approx([sigmoid(-0.5) - sigmoid(1.5), sigmoid(-0.5) - sigmoid(-2), 1, 0, 0.5])  # wrong, then right
    right = kept_and_gone(star(label=1), scored(4, 3, 2, 1), share=0.5, kind="phenomenon")[0]
    assert right == approx(kept_and_gone(star(), scored(4, 3, 2, 1), share=0.5)[0])
    with pytest.raises(ValueError, match="about labels"):
        fidelity(star(), {"mine": scored(4, 3, 2, 1)}, kind="phenomenon")
    with pytest.raises(ValueError, match="expected one of model"):
        fidelity(star(), {"mine": scored(4, 3, 2, 1)}, kind="both")
    with pytest.raises(ValueError, match="share of the edges"):
        fidelity(star(), {"mine": scored(4, 3, 2, 1)}, share=0)


def test_the_score_of_both_is_torch_geometrics_and_defined_at_its_ends():
    metric = pytest.importorskip("torch_geometric.explain.metric")
    for plus, minus in ((0.3, 0.2), (1.0, 0.0), (0.0, 0.4), (0.7, 1.0)):
        theirs = metric.characterization_score(torch.tensor(plus), torch.tensor(minus))
        assert characterisation(plus, minus) == approx(float(theirs))
    assert math.isnan(characterisation(-0.1, 0.2)) and characterisation(0, 1) == 0


@pytest.mark.parametrize("kind", ["model", "phenomenon"])
def test_where_a_mask_is_a_deletion_it_is_torch_geometrics_fidelity(kind):
    explain = pytest.importorskip("torch_geometric.explain")
    from torch_geometric.explain.metric import fidelity as theirs
    from torch_geometric.nn import GraphConv  # a sum: what is not sent is as good as deleted

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = GraphConv(3, 4), GraphConv(4, 3)

        def forward(self, x, edge_index):
            return self.two(self.one(x, edge_index).relu(), edge_index)

    model, nodes = Net().eval(), 12
    x, y = torch.randn(nodes, 3) * 2, torch.randint(3, (nodes,))
    edges = torch.randint(nodes, (2, 40))
    edges = edges[:, edges[0] != edges[1]].unique(dim=1)
    importance = torch.rand(edges.shape[1], dtype=torch.float64)
    adapter = on_graph(model, x, edges, labels=y, units="all")
    by_edge = lambda adapter, inputs: importance[inputs.tokens.clamp_min(0)]  # noqa: E731
    mine = kept_and_gone(adapter, by_edge, share=0.3, kind=kind)[:, 2:4].mean(0)

    class Given(explain.ExplainerAlgorithm):
        def forward(self, model, x, edge_index, *, target, index=None, **rest):
            kept = importance.argsort(descending=True)[: math.ceil(0.3 * edges.shape[1])]
            mask = torch.zeros(edges.shape[1]).index_fill(0, kept, 1.0)
            return explain.Explanation(edge_mask=mask)

        def supports(self):
            return True

    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = explain.Explainer(model, Given(), explanation_type=kind, edge_mask_type="object", model_config=config)
    given = {"target": y} if kind == "phenomenon" else {}
    judged = torch.tensor([-1 - one.tokens[0] for one in adapter.instances])
    assert len(judged) == nodes
    assert mine == approx(theirs(explainer, explainer(x, edges, **given)), abs=1e-6)


def test_every_measure_stands_beside_the_others_and_chance():
    adapter = on_graph(GAT(3, 2, 3, nheads=2).eval(), torch.randn(8, 3), torch.randint(8, (2, 30)), hops=2, units="all")
    found = {one.name: one for one in fidelity(adapter, share=0.3)}
    names = [
        "attention, mean of layers",
        "attention by its rivals",
        "attention, layer 1",
        "attention, layer 2",
        "GAtt",
        "gradient",
    ]
    assert list(layers_of(adapter)) == names and len(found) == 6 * 5
    one = found["Fidelity+ (probability) of GAtt"]
    assert set(one.baselines) == {"random", *names} - {"GAtt"} and one.n == 6
    assert "sparsity 0.6" in one.unit
    assert fidelity(adapter, share=0.3) == list(found.values())


# Weights that are known: source j of a target weighs softmax(j's feature), a loop of the node itself included.
LOOPS = torch.tensor([[0, 1, 1, 2, 0, 2, 1], [1, 1, 2, 2, 2, 0, 0]])  # 1 -> 1 and 2 -> 2 stand in between


def looped():
    model = GATConv(1, 1, bias=False)
    with torch.no_grad():
        model.lin.weight.fill_(1.0)
        model.att_src.fill_(1.0)
        model.att_dst.zero_()
    return model, torch.tensor([[0.3], [1.1], [2.0]])


def weights_by_hand(x):
    """{(source, target): weight}, one loop a node."""
    pairs = {*map(tuple, LOOPS.T.tolist()), (0, 0)}
    total = {t: sum(math.exp(x[s]) for s, end in pairs if end == t) for t in range(3)}
    return {(s, t): math.exp(x[s]) / total[t] for s, t in pairs}


def weight_truths(read):
    model, x = looped()
    adapter = on_graph(model, x, LOOPS, units="all", hops=1)
    wanted = weights_by_hand(x[:, 0].tolist())
    for case, one in enumerate(adapter.instances):
        found = read(adapter, adapter.inputs([case]))[0, 1:].tolist()
        assert found == approx([wanted[tuple(LOOPS[:, edge].tolist())] for edge in one.tokens[1:].tolist()], abs=1e-6)


def shifted(adapter, inputs):
    """As torch_geometric's AttentionExplainer: loops are removed and appended, and the first E weights are taken."""
    laid = adapter.selector.laid(inputs)
    ran = next(iter(adapter.maps(inputs).values()))
    loop = laid.edge_index[0] == laid.edge_index[1]
    appended = torch.cat([ran.edges().mean(0)[~loop], torch.zeros(len(loop))])[: len(loop)]
    return adapter.selector.of_units(appended, inputs)


def flipped(adapter, inputs):
    """Weights that sum to one over the edges that leave a node."""
    laid = adapter.selector.laid(inputs)
    turned = adapter.model(torch.tensor([[0.3], [1.1], [2.0]])[laid.row], laid.edge_index.flip(0), return_map=True)[1]
    return adapter.selector.of_units(turned.edges().mean(0), inputs)


def test_weights_stand_on_their_edges_where_a_graph_has_loops():
    weight_truths(of_layer(-1))
    weight_truths(gatt_of_units)  # one layer: what is carried to the node along an edge is its weight


@pytest.mark.parametrize("mutant", [shifted, flipped])
def test_a_shift_by_loops_and_a_flip_of_the_edges_are_seen(mutant):
    with pytest.raises(AssertionError):
        weight_truths(mutant)


def test_torch_geometrics_explainer_is_shifted_by_loops_and_ours_is_not():
    explain = pytest.importorskip("torch_geometric.explain")
    from torch_geometric.nn import GATConv as Peer

    (model, x), peer = looped(), Peer(1, 1, bias=False)
    peer.load_state_dict(model.state_dict())
    config = {"mode": "regression", "task_level": "node"}
    explainer = explain.Explainer(
        peer, explain.AttentionExplainer(), explanation_type="model", edge_mask_type="object", model_config=config
    )
    theirs = explainer(x, LOOPS).edge_mask
    wanted = torch.tensor([weights_by_hand(x[:, 0].tolist())[pair] for pair in map(tuple, LOOPS.T.tolist())])
    assert (theirs - wanted).abs().max() > 0.1
    adapter = on_graph(peer, x, LOOPS, units="all", hops=1)  # the same layer, recorded
    weights = of_layer(-1)(adapter, adapter.inputs([0]))[0, 1:]
    assert_close(weights.float(), wanted[adapter.instances[0].tokens[1:]], atol=1e-6, rtol=1e-5)


def test_a_weight_by_its_rivals_is_one_where_weights_are_uniform():
    target = torch.tensor([0, 0, 0, 1, 2, 2])
    uniform = torch.tensor([0.25, 0.25, 0.25, 0.5, 0.4, 0.4])  # the rest is the loop's
    assert by_rivals(uniform, target, 4).tolist() == approx([1] * 6, abs=1e-6)
    assert by_rivals(torch.tensor([0.1, 0.2, 0.6, 0.5, 0.0, 0.0]), target, 4).tolist() == approx(
        [1 / 3, 2 / 3, 2, 1, 0, 0], abs=1e-6)  # fmt: skip
    model, x = looped()
    adapter = on_graph(model, x, LOOPS, [2], units="all", hops=1)
    found = relative(adapter, adapter.inputs([0]))[0, 1:].tolist()
    wanted = weights_by_hand(x[:, 0].tolist())
    usual = (wanted[1, 2] + wanted[2, 2] + wanted[0, 2]) / 3  # the caller's own loop is a rival
    assert found == approx([wanted[1, 2] / usual, wanted[0, 2] / usual], abs=1e-6)


def test_flipped_edges_change_fidelity_on_a_directed_graph():
    model, x = looped()
    adapter = on_graph(model, x, LOOPS, [2], units="all", hops=1, forward=lambda m, x, e: 9 * (m(x, e) - 1.3))
    right, wrong = (kept_and_gone(adapter, read, share=0.5) for read in (of_layer(-1), flipped))
    assert not np.allclose(right[:, :2], wrong[:, :2])
    assert replace(adapter.selector, layer="mean").judged(adapter.sites) == adapter.sites
