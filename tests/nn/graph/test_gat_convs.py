"""GATConv, GATv2Conv and TransformerConv beside torch_geometric's, and where we do not follow it."""

from typing import Any

import pytest
import torch
from tests.nn.graph.parity import BIPARTITE, GRAPHS, NODES, assert_same, features
from torch.testing import assert_close

from regard.nn import GATConv, GATv2Conv, TransformerConv

peer = pytest.importorskip("torch_geometric.nn")

LAYERS = [GATConv, GATv2Conv, TransformerConv]
LOOPED = [GATConv, GATv2Conv]


def both(kind: type, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return kind(*arguments, **options), getattr(peer, kind.__name__)(*arguments, **options)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("kind", LAYERS)
def test_values_weights_and_gradients_are_those_of_torch_geometric(kind: type, concat: bool, graph: str) -> None:
    ours, theirs = both(kind, 5, 3, heads=2, concat=concat)
    index = GRAPHS[graph]
    assert_same(ours, theirs, lambda layer, x: layer(x, index, return_attention_weights=True), [features(NODES, 5)])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("kind", LAYERS)
def test_edge_features_and_their_gradients(kind: type, graph: str) -> None:
    index = GRAPHS[graph]
    ours, theirs = both(kind, 5, 3, heads=2, edge_dim=4)
    leaves = [features(NODES, 5), features(index.shape[1], 4)]
    if kind is TransformerConv and index.shape[1] == 0:  # torch_geometric's needs an edge; what is left is the skip
        ours.load_state_dict(theirs.state_dict())
        ours, theirs = ours.double(), theirs.double()
        assert_close(ours(leaves[0], index, leaves[1]), theirs.lin_skip(leaves[0]))
        return
    assert_same(ours, theirs, lambda layer, x, e: layer(x, index, e, return_attention_weights=True), leaves)


@pytest.mark.parametrize("fill", ["mean", "add", "min", "max", "mul", 0.5, torch.tensor([1.0, -1.0, 0.0, 2.0])])
@pytest.mark.parametrize("kind", LOOPED)
def test_loops_have_the_features_that_fill_value_says(kind: type, fill: Any) -> None:
    index = GRAPHS["with loops"]
    ours, theirs = both(kind, 5, 3, heads=2, edge_dim=4, fill_value=fill)
    leaves = [features(NODES, 5), features(index.shape[1], 4)]
    assert_same(ours, theirs, lambda layer, x, e: layer(x, index, e, return_attention_weights=True), leaves)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("kind", LAYERS)
def test_bipartite_graphs(kind: type, edge_dim: int | None, loops: bool) -> None:
    options = {} if kind is TransformerConv else {"add_self_loops": loops, "fill_value": 0.25}
    ours, theirs = both(kind, (5, 4), 3, heads=2, edge_dim=edge_dim, **options)
    leaves = [features(7, 5), features(4, 4)] + ([] if edge_dim is None else [features(BIPARTITE.shape[1], edge_dim)])
    call = lambda layer, x, z, e=None: layer((x, z), BIPARTITE, e, return_attention_weights=True)  # noqa: E731
    assert_same(ours, theirs, call, leaves)


def test_sources_alone_and_the_size_of_the_graph() -> None:
    ours, theirs = both(GATConv, (5, 4), 3, heads=2)
    assert_same(ours, theirs, lambda layer, x: layer((x, None), BIPARTITE, size=(7, 4)), [features(7, 5)])
    square = GRAPHS["directed"]
    ours, theirs = both(GATConv, (5, 5), 3, heads=2)
    assert_same(ours, theirs, lambda layer, x: layer(x, square), [features(NODES, 5)])
    assert_same(ours, theirs, lambda layer, x: layer((x, None), square), [features(NODES, 5)])


OPTIONS = [
    (GATConv, {"residual": True}),
    (GATConv, {"bias": False, "negative_slope": 0.5}),
    (GATConv, {"add_self_loops": False}),
    (GATConv, {"flow": "target_to_source"}),
    (GATv2Conv, {"share_weights": True}),
    (GATv2Conv, {"residual": True, "bias": False}),
    (GATv2Conv, {"add_self_loops": False, "negative_slope": 0.0}),
    (TransformerConv, {"beta": True}),
    (TransformerConv, {"beta": True, "concat": False}),
    (TransformerConv, {"root_weight": False, "bias": False}),
    (TransformerConv, {"flow": "target_to_source"}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
def test_options(kind: type, options: dict[str, Any]) -> None:
    ours, theirs = both(kind, 5, 3, heads=2, **options)
    index = GRAPHS["with loops"]
    assert_same(ours, theirs, lambda layer, x: layer(x, index, return_attention_weights=True), [features(NODES, 5)])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_sparse_adjacency_is_read_as_adj_t(kind: type, layout: str) -> None:
    index = GRAPHS["directed"]
    adjacency = torch.sparse_coo_tensor(index, torch.ones(index.shape[1]), (NODES, NODES)).t().coalesce()
    adjacency = {"coo": lambda: adjacency, "csr": adjacency.to_sparse_csr, "csc": adjacency.to_sparse_csc}[layout]()
    ours, theirs = both(kind, 5, 3, heads=2)
    if layout != "csc":  # torch_geometric refuses it
        assert_same(ours, theirs, lambda layer, x: layer(x, adjacency), [features(NODES, 5)])
    x = features(NODES, 5)
    assert_close(ours.double()(x, adjacency), ours(x, index))
    weighted, weights = ours(x, adjacency, return_attention_weights=True)[1]
    assert weighted.layout == adjacency.layout
    assert weights.shape[1] == 2
    plain, expected = ours(x, index, return_attention_weights=True)[1]
    dense = torch.zeros(NODES, NODES, 2, dtype=x.dtype)
    dense[plain[1], plain[0]] = expected.detach()
    rows = weighted if layout == "coo" else weighted.to_sparse_coo()
    assert_close(rows.detach().to_dense(), dense)


def test_the_width_of_the_input_may_come_with_the_input() -> None:
    layer = GATConv(-1, 3, heads=2, edge_dim=4)
    layer(features(NODES, 5).float(), GRAPHS["directed"], features(9, 4).float())
    assert layer.lin.weight.shape == (6, 5)
    bound = (6 / 11) ** 0.5
    assert layer.lin.weight.abs().max() <= bound


def test_features_may_be_sparse() -> None:
    x = (features(NODES, 5) * (features(NODES, 5, seed=1) > 0)).float()
    layer = GATConv(5, 3, heads=2)
    assert_close(layer(x.to_sparse(), GRAPHS["directed"]), layer(x, GRAPHS["directed"]))


@pytest.mark.parametrize("kind", LAYERS)
def test_a_batch_of_features_on_one_graph_is_each_item_by_itself(kind: type) -> None:
    layer, x = kind(5, 3, heads=2).double(), features(4, NODES, 5)
    index = GRAPHS["with loops"]
    assert_close(layer(x, index), torch.stack([layer(item, index) for item in x]))


@pytest.mark.parametrize("kind", LAYERS)
def test_renaming_nodes_renames_the_result(kind: type) -> None:
    layer, x, index = kind(5, 3, heads=2).double(), features(NODES, 5), GRAPHS["with loops"]
    order = torch.tensor([3, 5, 0, 1, 4, 2])
    new_name = torch.argsort(order)
    assert_close(layer(x[order], new_name[index]), layer(x, index)[order])


@pytest.mark.parametrize("align", ["sparsemax", "entmax15", "sigmoid"])
@pytest.mark.parametrize("kind", LAYERS)
def test_any_alignment_runs_on_edges(kind: type, align: str) -> None:
    layer = kind(5, 3, heads=2, align=align).double()
    x, index = features(NODES, 5).requires_grad_(), GRAPHS["with loops"]
    out, amap = layer(x, index, return_map=True)
    out.sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    assert (amap.edges() >= 0).all()


def test_value_dropout_leaves_the_weights_alone():
    torch.manual_seed(0)
    layer = GATConv(4, 3, heads=2, value_dropout=0.5)
    x, edge_index = torch.randn(5, 4), torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    still, (_, expected) = layer.eval()(x, edge_index, return_attention_weights=True)
    out, (_, weights) = layer.train()(x, edge_index, return_attention_weights=True)
    torch.testing.assert_close(weights, expected)
    assert not torch.allclose(out, still)
    many = torch.stack([layer(x, edge_index) for _ in range(600)]).mean(0)
    torch.testing.assert_close(many, still, rtol=0, atol=0.25)
