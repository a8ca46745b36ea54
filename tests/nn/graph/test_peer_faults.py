"""Faults of torch_geometric that were confirmed by running it; ours has none of them."""

import pytest
import torch
from tests.nn.graph.parity import GRAPHS, NODES, features
from torch.testing import assert_close

from regard.nn import GATConv, GATv2Conv, TransformerConv

KINDS = [GATConv, GATv2Conv, TransformerConv]


def test_weights_stand_on_the_callers_edges_when_the_graph_has_loops() -> None:
    """AttentionExplainer cuts the first E weights of a list whose loops were moved: each lands on the wrong edge."""
    index = torch.tensor([[0, 0, 1, 2], [0, 1, 2, 0]])
    layer, x = GATConv(5, 3).double(), features(3, 5)
    (edges, weights), amap = layer(x, index, return_attention_weights=True)[1], layer(x, index, return_map=True)[1]
    for place, (source, target) in enumerate(index.T.tolist()):
        (there,) = ((edges[0] == source) & (edges[1] == target)).nonzero()[:, 0].tolist()
        assert_close(amap.edges()[0, place], weights[there, 0])
    into = torch.zeros(3, dtype=x.dtype).index_add(0, index[1], amap.edges()[0])
    assert_close(into + amap.loops[0], torch.ones(3, dtype=x.dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_in_training_are_those_before_dropout(kind: type) -> None:
    """GATConv returns them after dropout (up to 1 / (1 - p)), TransformerConv before."""
    layer, x, index = kind(5, 3, heads=2, dropout=0.9).double(), features(NODES, 5), GRAPHS["directed"]
    expected = layer.eval()(x, index, return_attention_weights=True)[1][1]
    layer.train()
    assert_close(layer(x, index, return_attention_weights=True)[1][1], expected)
    _, amap = layer(x, index, return_map=True)
    assert amap.edges().max() <= 1
    assert (amap.edges(dropout=True) == 0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_false_means_no_weights(kind: type) -> None:
    """TransformerConv and RGATConv return a tuple for return_attention_weights=False."""
    out = kind(5, 3)(features(NODES, 5).float(), GRAPHS["directed"], return_attention_weights=False)
    assert isinstance(out, torch.Tensor)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_follows_the_seed_of_torch(kind: type) -> None:
    layer, x, index = kind(5, 3, dropout=0.5), features(NODES, 5).float(), GRAPHS["directed"]
    torch.manual_seed(3)
    first = layer(x, index)
    torch.manual_seed(3)
    assert torch.equal(layer(x, index), first)
    assert not torch.equal(layer(x, index), first)


def test_loops_of_a_bipartite_graph_with_more_targets_than_sources() -> None:
    """torch_geometric's fill_value="mean" indexes out of range here."""
    index = torch.tensor([[0, 1, 1], [3, 2, 4]])
    layer = GATConv((5, 4), 3, edge_dim=2)
    out = layer((features(2, 5).float(), features(5, 4).float()), index, features(3, 2).float())
    assert out.shape == (5, 3)


def test_an_edge_attr_without_a_place_is_not_ignored_in_silence() -> None:
    with pytest.warns(UserWarning, match="built without edge_dim"):
        GATConv(5, 3)(features(NODES, 5).float(), GRAPHS["directed"], features(9, 2).float())


def test_a_sparse_adjacency_may_have_edge_features_and_self_loops() -> None:
    """torch_geometric raises NotImplementedError for its SparseTensor."""
    index = GRAPHS["directed"]
    e = features(index.shape[1], 2)
    adjacency = torch.sparse_coo_tensor(index.flip(0), e, (NODES, NODES, 2)).coalesce()
    layer, x = GATConv(5, 3, edge_dim=2).double(), features(NODES, 5)
    assert_close(layer(x, adjacency), layer(x, index, e))


@pytest.mark.parametrize("kind", KINDS)
def test_one_compilation_without_a_break(kind: type) -> None:
    """Removing self-loops by nonzero breaks torch_geometric's graph twice."""
    layer, x, index = kind(5, 3, heads=2).eval(), features(NODES, 5).float(), GRAPHS["directed"]
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_close(compiled(x, index), layer(x, index))
