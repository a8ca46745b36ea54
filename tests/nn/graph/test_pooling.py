"""AttentionalAggregation and SAGPooling beside torch_geometric's."""

from typing import Any

import pytest
import torch
from tests.nn.graph.parity import GRAPHS, NODES, assert_same, features
from torch import nn
from torch.testing import assert_close

from regard.nn import AttentionalAggregation, GATConv, GraphConv, SAGPooling

peer = pytest.importorskip("torch_geometric.nn")

BATCHES = {
    "sorted": torch.tensor([0, 0, 1, 1, 1, 2]),
    "unsorted": torch.tensor([2, 0, 1, 0, 1, 2]),
    "an empty graph": torch.tensor([0, 0, 2, 2, 2, 2]),
}


def gates(width: int) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, width)), nn.Linear(5, 4)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("batch", BATCHES)
def test_attentional_aggregation(batch: str, width: int) -> None:
    ours, theirs = AttentionalAggregation(*gates(width)), peer.AttentionalAggregation(*gates(width))
    index = BATCHES[batch]
    assert_same(ours, theirs, lambda layer, x: layer(x, index, dim_size=4), [features(NODES, 5)])
    assert_same(ours, theirs, lambda layer, x: layer(x, index), [features(NODES, 5)])


def test_pointers_and_no_batch_at_all() -> None:
    ours, theirs = AttentionalAggregation(gates(1)[0]), peer.AttentionalAggregation(gates(1)[0])
    assert_same(ours, theirs, lambda layer, x: layer(x, ptr=torch.tensor([0, 2, 5, 6])), [features(NODES, 5)])
    whole = lambda layer, x: layer(x, torch.zeros(NODES, dtype=torch.long))  # noqa: E731
    assert_same(ours, theirs, whole, [features(NODES, 5)])
    assert_close(ours.double()(features(NODES, 5)), whole(ours, features(NODES, 5)))


def test_an_mlp_of_torch_geometric_keeps_its_names() -> None:
    def make(kind: Any) -> Any:
        torch.manual_seed(2)
        return kind(peer.MLP([5, 6, 1]), peer.MLP([5, 4]))

    ours, theirs = make(AttentionalAggregation), make(peer.AttentionalAggregation)
    assert_same(ours.eval(), theirs.eval(), lambda layer, x: layer(x, BATCHES["sorted"]), [features(NODES, 5)])


def test_pooling_gives_its_weights() -> None:
    """torch_geometric offers none."""
    layer, index = AttentionalAggregation(gates(1)[0]).double(), BATCHES["unsorted"]
    _, amap = layer(features(NODES, 5), index, return_map=True)
    assert_close(torch.zeros(3, dtype=torch.float64).index_add(0, index, amap.edges()[0]), torch.ones(3).double())


def test_a_readout_does_not_see_the_order_of_nodes_nor_a_graph_twice() -> None:
    layer, x = AttentionalAggregation(*gates(1)).double(), features(NODES, 5)
    once = layer(x)
    assert_close(layer(x[torch.tensor([3, 1, 5, 0, 2, 4])]), once)
    assert_close(layer(torch.cat([x, x])), once)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"ratio": 0.8},
    {"ratio": 2},
    {"min_score": 0.3},
    {"multiplier": 2.0},
    {"nonlinearity": torch.sigmoid},
]


@pytest.mark.parametrize("batch", [None, "sorted", "unsorted"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_sag_pooling(options: dict[str, Any], batch: str | None) -> None:
    torch.manual_seed(0)
    ours, theirs = SAGPooling(5, **options), peer.SAGPooling(5, **options)
    index = GRAPHS["with loops"]
    e = features(index.shape[1], 2)
    ids = None if batch is None else BATCHES[batch]
    assert_same(ours, theirs, lambda layer, x: layer(x, index, e, ids), [features(NODES, 5)])
    ours, theirs, x = ours.double(), theirs.double(), features(NODES, 5)
    for a, b in zip(ours(x, index, e, ids), theirs(x, index, e, ids), strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("gnn", ["GCNConv", "GATConv"])
def test_any_layer_may_score(gnn: str) -> None:
    torch.manual_seed(0)
    layer = SAGPooling(5, GNN=GATConv if gnn == "GATConv" else peer.GCNConv)
    theirs = peer.SAGPooling(5, GNN=getattr(peer, gnn))
    assert_same(layer, theirs, lambda layer, x: layer(x, GRAPHS["directed"]), [features(NODES, 5)])


def test_keeping_every_node_gates_them_and_leaves_the_graph() -> None:
    layer, x, index = SAGPooling(5, ratio=1.0 - 1e-9).double(), features(NODES, 5), GRAPHS["directed"]
    pooled, kept, _, _, perm, score = layer(x, index)
    assert_close(pooled, x[perm] * score[:, None])
    assert kept.shape == index.shape


@pytest.mark.parametrize("graph", GRAPHS)
def test_graph_conv(graph: str) -> None:
    torch.manual_seed(0)
    assert_same(GraphConv(5, 3), peer.GraphConv(5, 3), lambda layer, x: layer(x, GRAPHS[graph]), [features(NODES, 5)])


def test_a_score_alone_may_say_which_nodes_stay() -> None:
    x, index = torch.randn(4, 5), torch.tensor([[0, 1, 2], [1, 2, 3]])
    layer = SAGPooling(5, ratio=None, min_score=0.1)
    assert layer(x, index)[0].shape[1] == 5
    with pytest.raises(ValueError, match="ratio=None"):
        SAGPooling(5, ratio=None)
