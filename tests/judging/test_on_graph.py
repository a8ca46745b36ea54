"""Graph networks: a unit is an edge into the judged node."""

import pytest
import torch
from torch.testing import assert_close

from regard import Refused
from regard.judging.ablation import ablation
from regard.judging.faithfulness import faithfulness
from regard.judging.importance import leave_one_out
from regard.judging.inputs import Inputs, Instance
from regard.judging.on_graph import EdgeLook, on_graph
from regard.judging.permutation import permutation
from regard.models import GAT

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
    adapter, _, _ = judged()
    inputs = adapter.inputs([0, 1])
    last = adapter.maps(inputs)[adapter.sites[-1]].edges().reshape(-1, EDGES.shape[1]).mean(0)
    assert_close(adapter.attention(inputs)[0].float(), torch.cat([torch.zeros(1), last[[2, 3, 4]]]))
    adapter.look = EdgeLook(layer=0)
    first = adapter.maps(inputs)[adapter.sites[0]].edges().reshape(-1, EDGES.shape[1]).mean(0)
    assert_close(adapter.attention(inputs)[1, 1:3].float(), first[[0, 8]])


def test_a_graph_is_judged_by_erasure_and_ablation_and_permutation_is_refused():
    adapter, _, _ = judged()
    erased = faithfulness(adapter, beside={"leave one out": leave_one_out})
    assert all(one.n == 4 and one.undefined == 0 for one in erased)  # a node without edges is itself still
    assert "head 1 of attentions silent" in {one.name for one in ablation(adapter)}
    assert ablation(adapter) == ablation(adapter)
    with pytest.raises(Refused, match="ablation and by erasure"):
        permutation(adapter, times=1)


def test_nodes_without_neighbours_cannot_be_judged():
    with pytest.raises(ValueError, match="nothing to judge"):
        judged(nodes=[4, 5])
    with pytest.raises(ValueError, match="one row of its own"):
        EdgeLook(layer="rollout")


def test_the_node_itself_is_never_taken_away():
    inputs = Inputs.of([Instance(torch.tensor([-1, 2]), special=torch.tensor([True, False]))])
    assert inputs.without(torch.ones(1, 2, dtype=torch.bool), "mask").real.tolist() == [[True, False]]
