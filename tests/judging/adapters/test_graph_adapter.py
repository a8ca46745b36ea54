"""Graph networks: a unit is an edge into the judged node."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard import Refused, intervene, interventions
from regard.data import Example, collate
from regard.judging.adapters.attention_selector import AmongUnits
from regard.judging.adapters.edge_selector import EdgeSelector, Masked, edge_gradient
from regard.judging.adapters.graph_adapter import on_graph, on_graphs
from regard.judging.adapters.inputs import Inputs, Instance
from regard.judging.attribution.gradients import log_odds
from regard.judging.attribution.importance import leave_one_out
from regard.judging.tests.ablation import ablation
from regard.judging.tests.adversarial import seek
from regard.judging.tests.correlation import correlation
from regard.judging.tests.faithfulness import faithfulness
from regard.judging.tests.permutation import permutation
from regard.models import GAT
from regard.models.builders import graph_classifier
from regard.nn import GATConv

EDGES = torch.tensor([[0, 1, 2, 3, 4, 0, 2, 5, 3], [1, 2, 0, 0, 0, 3, 3, 5, 1]])  # node 4 and 5: none from another


def judged(**options):
    model, x = GAT(4, 3, 2, nheads=2).eval(), torch.randn(6, 4)
    return on_graph(model, x, EDGES, labels=torch.tensor([0, 1, 0, 1, 0, 1]), **options), model, x


def test_instances_are_nodes_that_others_point_to():
    adapter, _, _ = judged()
    assert [one.tokens.tolist() for one in adapter.instances] == [[-1, 2, 3, 4], [-2, 0, 8], [-3, 1], [-4, 5, 6]]
    assert adapter.labels == [0, 1, 0, 1]


def test_a_removed_edge_is_deleted_for_that_node_alone():
    adapter, model, x = judged()
    found = leave_one_out(adapter, adapter.inputs([0, 3]))
    with torch.no_grad():
        whole = model(x, EDGES).double().exp()
        for item, node, edges in ((0, 0, [2, 3, 4]), (1, 3, [5, 6])):
            for place, edge in enumerate(edges, 1):
                kept = [e for e in range(EDGES.shape[1]) if e != edge]
                without = model(x, EDGES[:, kept]).double().exp()
                assert_close(found[item, place], (whole[node] - without[node]).abs().sum() / 2, atol=1e-6, rtol=1e-4)


def test_weights_are_those_on_the_callers_edges():
    adapter, model, x = judged()
    inputs = adapter.inputs([0, 1])
    with torch.no_grad():
        first, last = (amap.edges().mean(0) for amap in model(x, EDGES, return_maps=True)[1])
    assert_close(adapter.attention(inputs)[0].float(), torch.cat([torch.zeros(1), last[[2, 3, 4]]]))
    adapter.selector = replace(adapter.selector, layer=0)
    assert_close(adapter.attention(inputs)[1, 1:3].float(), first[[0, 8]])


def test_a_graph_is_judged_by_erasure_ablation_and_correlation():
    adapter, _, _ = judged()
    erased = faithfulness(adapter, beside={"leave one out": leave_one_out})
    assert all(one.n == 4 and one.undefined == 0 for one in erased)  # a node without edges is itself still
    assert "head 1 of attentions silent" in {one.name for one in ablation(adapter)}
    assert ablation(adapter) == ablation(adapter)
    found = {one.name: one.n for one in correlation(adapter)}
    assert found["tau of attention and gradient"] == 1  # node 0 alone has three edges from others, and none is an end


def test_what_a_node_can_hear_is_all_that_its_prediction_needs():
    whole, model, x = judged()
    for units in ("into", "all"):
        near = on_graph(model, x.to_sparse(), EDGES, hops=2, units=units)
        found = near.in_parts(near.inputs(range(4)))
        assert_close(found, whole.in_parts(whole.inputs(range(4))), atol=1e-6, rtol=1e-5)
    assert near.selector.cases.laid(near.inputs([2])).graph.shape == (4,)  # node 2 hears 1, and through it 0 and 3
    assert [len(one.tokens) - 1 for one in near.instances] == [6, 7, 3, 6]  # edges but loops, at most two away


def test_permuted_weights_change_one_row_among_its_edges_and_nothing_else():
    adapter, model, x = judged()
    inputs = adapter.inputs([0])
    own, order = adapter.attention(inputs)[0, 1:], torch.tensor([1, 2, 0])

    class Turned(AmongUnits):
        def moved(self, weights, open_pairs, here):
            made = weights.clone()
            made[..., 1:] = weights[..., 1:][..., order]
            return made

    after = adapter.predict(inputs, {"out_att": Turned(adapter.selector, inputs)})[0]
    with torch.no_grad():
        _, (_, amap) = model(x, EDGES, return_maps=True)
        weights = torch.cat([amap.edges(), amap.loops], -1)
        weights[:, [2, 3, 4]] = weights[:, [2, 3, 4]][:, order]
        with intervene(model, {"out_att": interventions.Replace(weights)}):
            wanted = model(x, EDGES)[0].double().exp()
    assert_close(after, wanted, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(after, adapter.predict(inputs)[0], atol=1e-4) and len(set(own.tolist())) == 3
    found = permutation(adapter, times=3)
    assert found == permutation(adapter, times=3) and found[0].n == 4 and found[0].value > 0


def test_the_adversary_finds_other_weights_only_where_they_do_not_matter():
    def of(x):
        model = GATConv(2, 2, bias=False)
        with torch.no_grad():
            model.lin.weight.copy_(torch.eye(2) * 3)
            model.att_src.copy_(torch.tensor([[[1.0, 0.0]]]))
            model.att_dst.zero_()
        adapter = on_graph(model, x, torch.tensor([[1, 2, 3], [0, 0, 0]]), [0], hops=1)
        return seek(adapter, starts=2, steps=60, rate=0.1)

    same = of(torch.tensor([[0.0, 1], [1, 1], [1, 1], [1, 1]]))  # three that say the same
    other = of(torch.tensor([[0.0, 0], [1, -1], [0, 1], [-1, 3]]))
    assert same.best(0.05)[0] > 0.8 * same.limit[0] and other.best(0.05)[0] < 0.3 * other.limit[0]
    assert other.start_moved.max() > 0.05  # begun elsewhere, held to the prediction


def test_weights_of_several_nodes_share_no_whole_and_are_not_moved():
    adapter, _, _ = judged(units="all", hops=2)
    for test in (permutation, seek):
        with pytest.raises(Refused, match="share one whole"):
            test(adapter)


def test_the_gradient_of_an_edge_is_that_of_its_mask():
    adapter, _, _ = judged(units="all", hops=2)
    inputs = adapter.inputs([3])
    found, step = edge_gradient(adapter, inputs)[0], 1e-2
    for place in range(1, inputs.tokens.shape[1]):
        odds = []
        for sign in (1, -1):
            mask = torch.ones(inputs.real.shape)
            mask[0, place] += sign * step
            with torch.no_grad():
                odds.append(log_odds(adapter.logits(inputs, {"*": Masked(adapter.selector, inputs, mask)})))
        assert_close(found[place], ((odds[0] - odds[1]) / (2 * step))[0].double(), atol=2e-3, rtol=2e-2)
    assert found[0] == 0 and found[1:].abs().max() > 1e-3


def test_both_directions_of_a_bond_go_together():
    edges = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]])
    one = Example(torch.randn(3, 4), torch.tensor(1), edges=edges)
    model = graph_classifier(4, 2, dim=8, layers=2, heads=2).eval()
    bonds, ways = on_graphs(model, [one]), on_graphs(model, [one], bonds=False)
    assert [len(x.instances[0].tokens) - 1 for x in (bonds, ways)] == [2, 4]  # a loop is no unit
    assert_close(bonds.attention(bonds.inputs([0]))[0, 1:], ways.attention(ways.inputs([0]))[0, 1:].view(2, 2).mean(1))
    gone = torch.tensor([[False, True, False]])
    with torch.no_grad():
        wanted = model(collate([replace(one, edges=edges[:, 2:])])).out.double().softmax(-1)
    assert_close(bonds.predict_without(bonds.inputs([0]), gone), wanted, atol=1e-6, rtol=1e-5)


def test_nodes_without_neighbours_cannot_be_judged():
    with pytest.raises(ValueError, match="nothing to judge"):
        judged(nodes=[4, 5])
    with pytest.raises(ValueError, match="expected 'into'"):
        judged(units="near")
    with pytest.raises(ValueError, match="1 or more"):
        judged(hops=0)
    with pytest.raises(ValueError, match="on_graph"):
        EdgeSelector().laid(Inputs.of([Instance(torch.tensor([-1]))]))
    with pytest.raises(ValueError, match="one row of its own"):
        EdgeSelector(layer="rollout")


def test_the_node_itself_is_never_taken_away():
    inputs = Inputs.of([Instance(torch.tensor([-1, 2]), special=torch.tensor([True, False]))])
    assert inputs.without(torch.ones(1, 2, dtype=torch.bool), "mask").real.tolist() == [[True, False]]


def test_a_pyg_data_object_is_judged_on_its_test_nodes_or_on_those_with_a_class():
    Data = pytest.importorskip("torch_geometric.data").Data
    model, x = GAT(4, 3, 2, nheads=2).eval(), torch.randn(6, 4)
    y = torch.tensor([0, 1, -1, 1, 0, 1])
    adapter = on_graph(model, Data(x=x, edge_index=EDGES, y=y))
    assert adapter.labels == [0, 1, 1]  # node 2 has no class, 4 and 5 no edge from another
    given = on_graph(model, x, EDGES, [0, 1, 3], y)
    assert_close(adapter.attention(adapter.inputs([0, 1, 2])), given.attention(given.inputs([0, 1, 2])))
    parts = {f"{part}_mask": torch.arange(6) == node for node, part in ((0, "train"), (1, "val"), (3, "test"))}
    assert on_graph(model, Data(x=x, edge_index=EDGES, y=y, **parts)).instances[0].tokens.tolist() == [-1, 5, 6]
    with pytest.raises(TypeError, match="needs both; or one object"):
        on_graph(model, x)


def test_a_list_of_pyg_data_objects_is_judged_as_the_examples_that_they_are():
    Data = pytest.importorskip("torch_geometric.data").Data
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    xs = [torch.randn(3, 2) for _ in range(2)]
    model = graph_classifier(2, 2, dim=8).eval()
    examples = [Example(x, torch.tensor(i), edges=edges, id=i) for i, x in enumerate(xs)]
    given = on_graphs(model, [Data(x=x, edge_index=edges, y=torch.tensor([i])) for i, x in enumerate(xs)])
    one, two = (adapter.predict(adapter.inputs([0, 1])) for adapter in (given, on_graphs(model, examples)))
    assert_close(one, two)
    assert given.labels == [0, 1]
