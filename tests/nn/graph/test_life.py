"""Layers in use: batches and loaders of torch_geometric, compiling, exporting, low precision, copies, many calls."""

import copy
from typing import Any

import pytest
import torch
from tests.nn.graph.parity import GRAPHS, NODES, features
from torch import nn
from torch.testing import assert_close

from regard.core.structures.edges import Neighbours
from regard.nn import AGNNConv, AttentionalAggregation, GATConv, GATv2Conv, RGATConv, TransformerConv

INDEX = GRAPHS["with loops"]
KINDS = [GATConv, GATv2Conv, TransformerConv]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_graphs_side_by_side_is_each_by_itself(kind: type) -> None:
    data = pytest.importorskip("torch_geometric.data")
    layer = kind(5, 3, heads=2, edge_dim=2).double()
    graphs = [
        (features(NODES, 5, seed=i), index, features(index.shape[1], 2, seed=i))
        for i, index in enumerate(GRAPHS.values())
    ]
    batch = data.Batch.from_data_list([data.Data(x=x, edge_index=index, edge_attr=e) for x, index, e in graphs])
    together = layer(batch.x, batch.edge_index, batch.edge_attr)
    assert_close(together, torch.cat([layer(x, index, e) for x, index, e in graphs]))


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_once_with_edge_features_and_gradients(kind: type) -> None:
    layer, x, e = kind(5, 3, heads=2, edge_dim=2), features(NODES, 5).float(), features(INDEX.shape[1], 2).float()
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    grads = []
    for run in (layer, compiled):
        out = run(x, INDEX, e)
        grads.append(torch.autograd.grad(out.sin().sum(), list(layer.parameters()), allow_unused=True))
    for a, b in zip(*grads, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_close(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_exported(kind: type) -> None:
    layer, x = kind(5, 3, heads=2).eval(), features(NODES, 5).float()
    program = torch.export.export(layer, (x, INDEX))
    assert_close(program.module()(x, INDEX), layer(x, INDEX))


@pytest.mark.parametrize("make", [*(lambda kind=kind: kind(5, 3, heads=2) for kind in KINDS), AGNNConv])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_and_autocast_stay_near_full_precision(make: Any, dtype: torch.dtype) -> None:
    layer, x = make(), features(NODES, 5).float()
    exact = layer(x, INDEX)
    with torch.autocast("cpu", dtype=dtype):
        assert_close(layer(x, INDEX).float(), exact, atol=0.05, rtol=0.05)
    low = layer.to(dtype)(x.to(dtype), INDEX)
    assert low.dtype == dtype
    assert_close(low.float(), exact, atol=0.05, rtol=0.05)


def test_a_large_score_elsewhere_does_not_drown_a_neighbourhood() -> None:
    """A maximum over the whole graph instead of a target's own sources makes other groups 0 / 0."""
    x = features(NODES, 5)
    x[3] *= 1e4
    out = TransformerConv(5, 3, heads=2).double()(x, INDEX)
    assert out.isfinite().all()
    layer = TransformerConv(5, 3, heads=2).double()
    _, amap = layer(x, INDEX, return_map=True)
    into = torch.zeros(2, NODES, dtype=x.dtype).index_add(1, INDEX[1], amap.edges())
    assert_close(into[:, INDEX[1].unique()], torch.ones(2, INDEX[1].unique().numel(), dtype=x.dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_same_input_same_bits(kind: type) -> None:
    layer, x = kind(5, 3, heads=2), features(NODES, 5).float().requires_grad_()
    found = []
    for _ in range(3):
        out = layer(x, INDEX)
        found.append((out, *torch.autograd.grad(out.sin().sum(), [x, *layer.parameters()], allow_unused=True)))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True) if a is not None)


def test_a_graph_is_sorted_once_for_all_layers_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    count, build = [0], Neighbours.build

    def counting(*arguments: Any) -> Neighbours:
        count[0] += 1
        return build(*arguments)

    monkeypatch.setattr(Neighbours, "build", staticmethod(counting))
    index, x = INDEX.clone(), features(NODES, 5).float()
    first, second = GATConv(5, 4), GATv2Conv(4, 3)
    for _ in range(3):
        second(first(x, index), index)
    assert count[0] == 1


def test_copies_and_functional_calls_use_their_own_parameters() -> None:
    for layer in (GATConv(5, 3), GATv2Conv(5, 3), RGATConv(5, 3, 1)):
        more = (torch.zeros(INDEX.shape[1]).long(),) if isinstance(layer, RGATConv) else ()
        x = features(NODES, 5).float()
        other = {name: torch.zeros_like(p) for name, p in layer.named_parameters()}
        assert (torch.func.functional_call(layer, other, (x, INDEX, *more)) == 0).all()
        twin = copy.deepcopy(layer)
        with torch.no_grad():
            for p in twin.parameters():
                p.zero_()
        assert (twin(x, INDEX, *more) == 0).all()
        assert (layer(x, INDEX, *more) != 0).any()


def test_maps_know_who_attended_whom() -> None:
    """weights()[h, target, source]; row = the one attending."""
    layer, x = GATConv(5, 3, add_self_loops=False).double(), features(3, 5)
    _, amap = layer(x, torch.tensor([[0], [1]]), return_map=True)
    expected = torch.zeros(1, 3, 3, dtype=x.dtype)
    expected[0, 1, 0] = 1
    assert_close(amap.weights(), expected)
    assert_close(amap.entropy(), torch.zeros(1, 3, dtype=x.dtype))


def test_readable_mistakes() -> None:
    x = features(NODES, 5).float()
    with pytest.raises(ValueError, match=r"edge_attr has 3 rows, but there are 9 edges"):
        GATConv(5, 3, edge_dim=2)(x, INDEX, torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"edge_index is torch.int64 \(9, 2\).*edge_index.T"):
        GATConv(5, 3)(x, INDEX.t())
    with pytest.raises(TypeError, match="expected a tensor"):
        GATConv(5, 3)(x, [[0, 1], [1, 0]])
    with pytest.raises(TypeError, match="unknown arguments"):
        GATConv(5, 3, negativ_slope=0.1)
    with pytest.raises(ValueError, match="pass one of"):
        GATConv(5, 3)(x, INDEX, return_attention_weights=True, return_map=True)
    with pytest.raises(ValueError, match="fill_value='median'"):
        GATConv(5, 3, edge_dim=2, fill_value="median")(x, INDEX, torch.zeros(9, 2))
    with pytest.raises(ValueError, match="needs the targets' features"):
        TransformerConv((5, 5), 3)((x, None), INDEX)


def test_pooling_needs_no_sorted_batch_and_is_exported() -> None:
    layer, x, batch = (
        AttentionalAggregation(nn.Linear(5, 1)),
        features(NODES, 5).float(),
        torch.tensor([1, 0, 1, 0, 2, 2]),
    )
    program = torch.export.export(layer, (x, batch), {"dim_size": 3})
    assert_close(program.module()(x, batch, dim_size=3), layer(x, batch))
