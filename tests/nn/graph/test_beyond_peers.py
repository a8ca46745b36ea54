"""Layers that torch_geometric does not have, against their formulas written out, and the properties they state."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.nn.graph.parity import GRAPHS, NODES, features
from torch import Tensor
from torch.testing import assert_close

from regard import Padding
from regard.nn import (
    DegreeEncoding,
    EdgeGATConv,
    GATConv,
    GatedReadout,
    GlobalNode,
    GraphormerAttention,
    GraphTransformerConv,
    PathEncoding,
    RGATConv,
    SimpleHGNConv,
    WalkAttention,
    shortest_paths,
)

INDEX = GRAPHS["directed"]
EDGES = INDEX.shape[1]


def softmax_into(scores: Tensor, target: Tensor, nodes: int = NODES) -> Tensor:
    """Softmax of (E, H) over the edges of each target, one target at a time."""
    out = torch.zeros_like(scores)
    for node in range(nodes):
        out[target == node] = scores[target == node].softmax(0)
    return out


def summed_into(values: Tensor, target: Tensor, nodes: int = NODES) -> Tensor:
    return torch.zeros(nodes, *values.shape[1:], dtype=values.dtype).index_add(0, target, values)


def with_gradients(layer: Any, out: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(out.sin().sum(), list(layer.parameters()), retain_graph=True, allow_unused=True))


def assert_gradients(layer: Any, ours: Tensor, written: Tensor) -> None:
    assert_close(ours, written)
    for a, b in zip(with_gradients(layer, ours), with_gradients(layer, written), strict=True):
        assert (a is None) == (b is None) or not (b if a is None else a).any()
        if a is not None and b is not None:
            assert_close(a, b)


def test_edge_gat_is_its_formula() -> None:
    layer, x, e = EdgeGATConv(5, 4, 3, 2, heads=2).double(), features(NODES, 5), features(EDGES, 4)
    torch.nn.init.normal_(layer.bias)
    out, new = layer(x, INDEX, e)
    j, i = INDEX
    f = F.leaky_relu(layer.lin_dst(x)[i] + layer.lin_src(x)[j] + layer.lin_edge(e) + layer.bias, 0.01)
    w = softmax_into((f.view(-1, 2, 2) * layer.att).sum(-1), i)
    expected = summed_into(w[..., None] * layer.lin_value(x)[j].view(-1, 2, 3), i).flatten(1)
    assert_close(new, f)
    assert_gradients(layer, out, expected)


def test_simple_hgn_is_its_formula_with_the_weights_of_the_layer_before() -> None:
    layer, x = SimpleHGNConv(5, 3, 2, 4, heads=2, beta=0.3, residual=True).double(), features(NODES, 5)
    kinds, (j, i) = torch.arange(EDGES) % 2, INDEX
    _, before = SimpleHGNConv(5, 3, 2, 4, heads=2).double()(x, INDEX, kinds, return_weights=True)
    out, after = layer(x, INDEX, kinds, previous=before, return_weights=True)
    h = layer.lin(x).view(NODES, 2, 3)
    r = (layer.lin_relation(layer.relation).view(2, 2, 4) * layer.att_relation).sum(-1)
    s = F.leaky_relu((h * layer.att_dst).sum(-1)[i] + (h * layer.att_src).sum(-1)[j] + r[kinds], 0.05)
    w = 0.7 * softmax_into(s, i) + 0.3 * before.t()
    assert_close(after.t(), w)
    assert_gradients(layer, out, summed_into(w[..., None] * h[j], i).flatten(1) + layer.res(x) + layer.bias)


def test_simple_hgn_remembers_along_the_edges_and_never_as_a_matrix() -> None:
    """A backend asked for by name never falls back: both passes run over edges."""
    layer, x, kinds = (
        SimpleHGNConv(5, 3, 2, heads=2, backend="edges-cpu"),
        torch.randn(NODES, 5),
        torch.arange(EDGES) % 2,
    )
    _, before = layer(x, INDEX, kinds, return_weights=True)
    assert layer(x, INDEX, kinds, previous=before).shape == (NODES, 6)


def test_simple_hgn_without_types_and_memory_is_gat() -> None:
    layer, x = SimpleHGNConv(5, 3, 2, heads=2, beta=0.0, negative_slope=0.2).double(), features(NODES, 5)
    torch.nn.init.zeros_(layer.lin_relation.weight)
    gat = GATConv(5, 3, heads=2, add_self_loops=False).double()
    gat.load_state_dict({name: layer.state_dict()[name] for name in gat.state_dict()})
    assert_close(layer(x, INDEX, torch.zeros(EDGES).long()), gat(x, INDEX))
    assert_close(
        SimpleHGNConv(5, 3, 2, normalize=True, residual=True)
        .double()(x, INDEX, torch.zeros(EDGES).long())
        .norm(dim=-1),
        torch.ones(NODES).double(),
    )


def test_graph_transformer_is_its_formula() -> None:
    layer = GraphTransformerConv(8, heads=2, edge_dim=8, norm=None, clamp=0.5).double()
    x, e, (j, i) = features(NODES, 8), features(EDGES, 8), INDEX
    out, new = layer(x, INDEX, e)
    q, k, v, g = (
        part(z).view(-1, 2, 4)
        for part, z in ((layer.lin_query, x), (layer.lin_key, x), (layer.lin_value, x), (layer.lin_edge, e))
    )
    s = q[i] * k[j] * g / 2
    w = softmax_into(s.sum(-1).clamp(-0.5, 0.5), i)
    assert (s.sum(-1).abs() > 0.5).any()
    h = x + layer.node.out(summed_into(w[..., None] * v[j], i).flatten(1))
    assert_gradients(layer, out, h + layer.node.narrow(layer.node.wide(h).relu()))
    h = e + layer.edge.out(s.flatten(1))
    assert_gradients(layer, new, h + layer.edge.narrow(layer.edge.wide(h).relu()))


def test_graph_transformer_without_edges_and_with_edges_of_one_are_the_same() -> None:
    torch.manual_seed(0)
    with_edges, without = (
        GraphTransformerConv(8, heads=2, edge_dim=8).double(),
        GraphTransformerConv(8, heads=2).double(),
    )
    without.load_state_dict({name: with_edges.state_dict()[name] for name in without.state_dict()})
    with torch.no_grad():
        with_edges.lin_edge.weight.copy_(torch.eye(8))
    x = features(NODES, 8)
    assert_close(with_edges(x, INDEX, torch.ones(EDGES, 8).double())[0], without(x, INDEX))


def test_shortest_paths_and_their_edges() -> None:
    """0 -> 1 -> 2 -> 3 and a short cut 0 -> 2; node 4 is alone."""
    index = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 2]])
    distance, path = shortest_paths(index, 5, limit=4)
    assert distance[0].tolist() == [0, 1, 1, 2, 5]
    assert distance[3].tolist() == [5, 5, 5, 0, 5]
    assert path[0, 3].tolist() == [3, 2, -1, -1]
    assert shortest_paths(index, 5, limit=1)[0][0].tolist() == [0, 1, 1, 2, 2]


def test_graphormer_is_a_transformer_with_biases() -> None:
    layer, x = GraphormerAttention(8, 2, limit=3).double(), features(NODES, 8)
    distance, path = shortest_paths(INDEX, NODES, 3)
    encoding = PathEncoding(4, 2, 3).double()
    more = encoding(features(EDGES, 4), path)
    q, k, v = (part(x).view(NODES, 2, 4).transpose(0, 1) for part in (layer.lin_query, layer.lin_key, layer.lin_value))

    def expected(bias: Tensor | float) -> Tensor:
        w = (q @ k.transpose(-1, -2) / 2 + bias).softmax(-1)
        return layer.lin_out((w @ v).transpose(0, 1).flatten(1))

    assert_close(layer(x, distance), expected(0.0))  # biases start at 0
    torch.nn.init.normal_(layer.by_distance)
    assert_gradients(layer, layer(x, distance, more), expected(layer.by_distance[:, distance] + more))
    way = [edge for edge in path[1, 3].tolist() if edge >= 0]
    terms = [features(EDGES, 4)[edge] @ encoding.weight[place].t() for place, edge in enumerate(way)]
    assert_close(more[:, 1, 3], sum(terms) / len(way) if way else torch.zeros(2).double())


def test_graphormer_with_a_virtual_node_and_a_padded_batch() -> None:
    layer = GraphormerAttention(8, 2, limit=3, virtual_node=True).double()
    torch.nn.init.normal_(layer.virtual), torch.nn.init.normal_(layer.by_distance)
    x, distance = features(2, NODES + 1, 8), shortest_paths(INDEX, NODES, 3)[0]
    lengths = torch.tensor([7, 5])
    out, amap = layer(x, distance.expand(2, -1, -1), over=Padding(lengths), return_map=True)
    assert (amap.weights()[1, :, :, 5:] == 0).all()
    alone = layer(x[1, :5], distance[:4, :4])
    assert_close(out[1, :5], alone)


def test_degrees_are_told_apart() -> None:
    encoding = DegreeEncoding(8, most=2)
    z = encoding(INDEX, NODES)
    into, out = (
        torch.bincount(INDEX[1], minlength=NODES).clamp(max=2),
        torch.bincount(INDEX[0], minlength=NODES).clamp(max=2),
    )
    assert_close(z, encoding.inward.weight[into] + encoding.outward.weight[out])


@pytest.mark.parametrize("start", [0, 1])
def test_walk_attention_mixes_powers_of_the_transition_matrix(start: int) -> None:
    layer, x = WalkAttention(3, start=start).double(), features(NODES, 5)
    torch.nn.init.normal_(layer.logits)
    walk = torch.zeros(NODES, NODES).double().index_put((INDEX[1], INDEX[0]), torch.ones(()).double(), accumulate=True)
    walk = walk / walk.sum(1, keepdim=True).clamp_min(1)
    a = layer.logits.softmax(0)
    expected = sum(a[k - start] * torch.linalg.matrix_power(walk, k) @ x for k in range(start, 4))
    out, weights = layer(x, INDEX, return_weights=True)
    assert_close(weights, a.detach())
    assert_gradients(layer, out, expected)


def test_gated_readout_sums_what_each_gate_lets_through() -> None:
    layer, h, x = GatedReadout(5, 3, x_channels=4).double(), features(NODES, 5), features(NODES, 4)
    batch = torch.tensor([2, 0, 0, 2, 2, 0])
    seen = torch.cat([h, x], 1)
    gated = torch.sigmoid(layer.gate(seen)) * torch.tanh(layer.value(seen))
    out, amap = layer(h, x, batch, graphs=4, return_map=True)
    assert_gradients(layer, out, summed_into(gated, batch, 4).tanh())
    assert_close(amap.edges()[0].t(), torch.sigmoid(layer.gate(seen)).detach())
    twice = layer(torch.cat([h, h]), torch.cat([x, x]), torch.cat([batch, batch]), graphs=4)
    assert_close(torch.atanh(twice), 2 * torch.atanh(out))


def test_a_global_node_is_joined_both_ways_to_its_graph() -> None:
    batch = torch.tensor([0, 0, 1, 1, 0, 1])
    x, index, ids, kind = GlobalNode(5)(features(NODES, 5).float(), GRAPHS["isolated nodes"], batch)
    assert x.shape == (8, 5) and ids.tolist() == [*batch.tolist(), 0, 1]
    assert {(s, t) for s, t, r in zip(*index.tolist(), kind.tolist(), strict=True) if r == 1} == {
        (node, 6 + int(batch[node])) for node in range(NODES)
    }
    out = RGATConv(5, 3, 3)(x, index, kind)
    nodes, graphs = GlobalNode.split(out, 2)
    assert nodes.shape == (6, 3) and graphs.shape == (2, 3)


def test_two_layers_with_a_global_node_reach_the_whole_graph_and_without_do_not() -> None:
    x = features(NODES, 5).requires_grad_()
    index = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    torch.manual_seed(0)
    one, two = GATConv(5, 5).double(), GATConv(5, 1).double()

    def reach(z: Tensor, edges: Tensor) -> float:
        (grad,) = torch.autograd.grad(two(one(z, edges).tanh(), edges)[5].sum(), x)
        return float(grad[0].abs().sum())

    assert reach(x, index) == 0
    joined = GlobalNode(5).double()(x, index)
    assert reach(joined[0], joined[1]) > 0


LAYERS = [
    lambda x, index: SimpleHGNConv(8, 4, 1).double()(x, index, torch.zeros(index.shape[1]).long()),
    lambda x, index: GraphTransformerConv(8, heads=2).double()(x, index),
    lambda x, index: WalkAttention(2).double()(x, index),
    lambda x, index: GraphormerAttention(8, 2).double()(x, shortest_paths(index, NODES)[0]),
]


@pytest.mark.parametrize("run", LAYERS)
def test_renaming_nodes_renames_the_result(run: Any) -> None:
    x, order = features(NODES, 8), torch.tensor([3, 5, 0, 1, 4, 2])
    torch.manual_seed(0)
    renamed = run(x[order], torch.argsort(order)[INDEX])
    torch.manual_seed(0)
    assert_close(renamed, run(x, INDEX)[order])


def test_layers_run_on_an_empty_graph() -> None:
    empty, x = GRAPHS["empty"], features(NODES, 8)
    out, new = EdgeGATConv(8, 4, 3, 2).double()(x, empty, torch.zeros(0, 4).double())
    assert (out == 0).all() and new.shape == (0, 2)
    assert (WalkAttention(2).double()(x, empty) == 0).all()
    assert GraphTransformerConv(8, heads=2).double()(x, empty).isfinite().all()
    assert not math.isnan(float(SimpleHGNConv(8, 4, 1).double()(x, empty, torch.zeros(0).long()).sum()))
