"""Our layers under torch_geometric's own tools, beside its layers with the same weights."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import regard

pyg = pytest.importorskip("torch_geometric")

from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer  # noqa: E402
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks  # noqa: E402
from torch_geometric.nn import GPSConv, HeteroConv, MessagePassing, global_add_pool, to_hetero  # noqa: E402
from torch_geometric.utils import get_num_hops, to_dense_batch  # noqa: E402

import regard.integrations.torch_geometric as ours  # noqa: E402
from regard.integrations.torch_geometric import MapExplainer, to_explanation  # noqa: E402

G = torch.Generator().manual_seed(0)
X = torch.randn(6, 5, generator=G)
INDEX = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5, 0], [1, 0, 1, 1, 2, 3, 0, 4, 2]])  # with loops at 1 and 3
E = torch.randn(INDEX.shape[1], 3, generator=G)
KINDS = {
    "GATConv": ((5, 4), {"heads": 2}),
    "GATv2Conv": ((5, 4), {"heads": 2}),
    "TransformerConv": ((5, 4), {"heads": 2}),
    "AGNNConv": ((), {}),
    "SuperGATConv": ((5, 4), {"heads": 2}),
}


def pair(name, **more):
    """torch_geometric's layer and ours, with the same weights."""
    args, options = KINDS[name]
    torch.manual_seed(1)
    peer = getattr(pyg.nn, name)(*args, **options, **more)
    mine = getattr(ours, name)(*args, **options, **more)
    mine.load_state_dict(peer.state_dict())
    return peer.eval(), mine.eval()


@pytest.mark.parametrize("name", KINDS)
def test_a_layer_is_a_message_passing_module_with_the_same_numbers(name):
    peer, mine = pair(name)
    plain = getattr(regard.nn, name)(*KINDS[name][0], **KINDS[name][1]).eval()
    plain.load_state_dict(peer.state_dict())
    assert isinstance(mine, MessagePassing) and repr(mine) == repr(peer) and get_num_hops(nn.Sequential(mine)) == 1
    assert_close(mine(X, INDEX), peer(X, INDEX))
    assert torch.equal(mine(X, INDEX), plain(X, INDEX))


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_a_mask_scales_messages_as_it_does_there(name, edges):
    if edges and name in ("AGNNConv", "SuperGATConv"):
        pytest.skip("these have no edge features")
    given = (X, INDEX, E) if edges else (X, INDEX)
    outs, grads = [], []
    for layer in pair(name, **({"edge_dim": 3} if edges else {})):
        mask = torch.linspace(-2, 2, INDEX.shape[1]).requires_grad_()
        set_masks(layer, mask, INDEX, apply_sigmoid=True)
        out = layer(*given)
        grads.append(torch.autograd.grad((out * torch.arange(out.shape[1])).sum(), mask)[0])
        outs.append(out)
        clear_masks(layer)
        assert_close(layer(*given), layer(*given))
        assert layer.explain is None
    assert_close(outs[1], outs[0])
    assert_close(grads[1], grads[0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(outs[1], pair(name, **({"edge_dim": 3} if edges else {}))[1](*given))


class Net(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first = layers.GATConv((-1, -1), 4, heads=2, add_self_loops=False)
        self.second = layers.TransformerConv((-1, -1), 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def typed():
    g = torch.Generator().manual_seed(3)
    x = {"paper": torch.randn(5, 6, generator=g), "author": torch.randn(4, 3, generator=g)}
    edges = {
        ("paper", "cites", "paper"): torch.tensor([[0, 1, 2, 4], [1, 2, 0, 3]]),
        ("author", "writes", "paper"): torch.tensor([[0, 1, 2, 3, 3], [0, 1, 2, 3, 4]]),
        ("paper", "by", "author"): torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 3, 3]]),
    }
    return x, edges, (list(x), list(edges))


def test_to_hetero_turns_a_model_of_our_layers_as_it_does_one_of_its_own():
    x, edges, metadata = typed()
    nets = [to_hetero(Net(layers), metadata) for layers in (pyg.nn, ours)]
    with torch.no_grad():
        for net in nets:
            net(x, edges)  # takes the widths
    nets[1].load_state_dict(nets[0].state_dict())
    theirs, mine = (net(x, edges) for net in nets)
    for kind in theirs:
        assert_close(mine[kind], theirs[kind])


def test_a_convolution_aggregates_by_our_pooling():
    outs = []
    for aggregation in (pyg.nn.aggr.AttentionalAggregation, ours.AttentionalAggregation):
        torch.manual_seed(8)
        outs.append(pyg.nn.SAGEConv(5, 3, aggr=aggregation(nn.Linear(5, 1)))(X, INDEX))
    assert_close(outs[1], outs[0])


def test_a_model_of_regard_nn_goes_through_hetero_conv():
    x, edges, _ = typed()
    convs = {kind: regard.nn.GATv2Conv((-1, -1), 4, add_self_loops=False) for kind in edges}
    out = HeteroConv(convs)(x, edges)
    assert out["paper"].shape == (5, 4) and out["author"].shape == (4, 4)


def explainer(model, algorithm, **more):
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    return Explainer(model, algorithm, explanation_type="model", edge_mask_type="object", model_config=config, **more)


class Two(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first, self.second = layers.GATConv(5, 4, heads=2), layers.GATv2Conv(8, 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def two(layers):
    torch.manual_seed(4)
    net = Two(layers).eval()
    if layers is not pyg.nn:
        net.load_state_dict(two(pyg.nn).state_dict())
    return net


def test_gnn_explainer_and_attention_explainer_read_our_layers():
    torch.manual_seed(0)
    found = explainer(two(ours), GNNExplainer(epochs=5))(X, INDEX, index=0)
    assert found.edge_mask.shape == (INDEX.shape[1],) and found.edge_mask.count_nonzero() > 0
    no_loops = INDEX[:, INDEX[0] != INDEX[1]]  # where the graph has loops, theirs puts weights on other edges
    masks = [explainer(two(layers), AttentionExplainer())(X, no_loops, index=0).edge_mask for layers in (pyg.nn, ours)]
    assert_close(masks[1], masks[0])


@pytest.mark.parametrize("reduce", ["max", "mean", "sum"])
@pytest.mark.parametrize("layers", [pyg.nn, ours, regard.nn], ids=["theirs", "integration", "regard.nn"])
def test_map_explainer_puts_weights_on_the_callers_edges(layers, reduce):
    """Weights of the two layers are those that the maps give, also where the graph has loops."""
    net = two(layers)
    plain = two(regard.nn)
    first = plain.first(X, INDEX, return_map=True)
    second = plain.second(first[0].relu(), INDEX, return_map=True)
    each = torch.stack(
        [getattr(amap.edges(), {"max": "amax"}.get(reduce, reduce))(0) for amap in (first[1], second[1])]
    )
    expected = getattr(each, {"max": "amax"}.get(reduce, reduce))(0)
    whole = explainer(net, MapExplainer(reduce))(X, INDEX)
    assert_close(whole.edge_mask, expected.detach())
    near = explainer(net, MapExplainer(reduce))(X, INDEX, index=4)  # 5 -> 4 and what comes to 5: nothing
    assert near.edge_mask.nonzero().flatten().tolist() == [7]
    assert_close(to_explanation(_recorded(net), INDEX, reduce).edge_mask, whole.edge_mask)


def _recorded(net):
    with torch.no_grad(), regard.record(net) as rec:
        net(X, INDEX)
    return rec


def test_a_record_has_one_map_a_call_of_our_layers():
    assert list(_recorded(two(ours)).maps) == list(_recorded(two(regard.nn)).maps) == ["first", "second"]


def test_map_explainer_by_gatt_is_the_attribution_over_the_computation_tree():
    from regard.recording.attribution.gatt import gatt

    net = two(regard.nn)
    found = explainer(net, MapExplainer("gatt"))(X, INDEX, index=0).edge_mask
    assert_close(found, gatt(_recorded(net), 0).edges())
    with pytest.raises(ValueError, match="explains one node"):
        explainer(net, MapExplainer("gatt"))(X, INDEX)


class Typed(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x_dict, edge_index_dict):
        return self.conv(x_dict, edge_index_dict)["paper"]


@pytest.mark.parametrize("name", ["HGTConv", "HANConv"])
def test_map_explainer_explains_hgt_and_han_of_both_libraries_alike(name):
    x, edges, metadata = typed()
    widths = {kind: one.shape[1] for kind, one in x.items()}
    torch.manual_seed(2)
    peer = getattr(pyg.nn, name)(widths, 4, metadata, heads=2)
    masks = []
    for layers in (pyg.nn, ours, regard.nn):
        conv = getattr(layers, name)(widths, 4, metadata, heads=2)
        conv.load_state_dict(peer.state_dict())
        found = explainer(Typed(conv).eval(), MapExplainer())(x, edges)
        masks.append(found.collect("edge_mask"))
    plain = getattr(regard.nn, name)(widths, 4, metadata, heads=2).eval()
    plain.load_state_dict(peer.state_dict())
    maps = plain(x, edges, return_map=True)[1]
    for kind in edges:
        weights = maps[kind] if name == "HGTConv" else maps[kind].edges()
        for mask in masks:
            assert_close(mask[kind], weights.amax(0).detach())


def test_edges_of_a_graph_of_types_that_do_not_lead_to_the_node_get_nothing():
    x, edges, metadata = typed()
    conv = regard.nn.HGTConv({kind: one.shape[1] for kind, one in x.items()}, 4, metadata, heads=2)
    found = explainer(Typed(conv).eval(), MapExplainer(node_type="paper"))(x, edges, index=3)
    masks = found.collect("edge_mask")
    assert {kind: mask.nonzero().flatten().tolist() for kind, mask in masks.items()} == {
        ("paper", "cites", "paper"): [3],
        ("author", "writes", "paper"): [3],
        ("paper", "by", "author"): [],
    }


def test_types_with_the_very_same_edges_keep_their_own_weights():
    x = {"a": X}
    same = INDEX[:, :4]
    edges = {("a", "likes", "a"): same, ("a", "knows", "a"): same.clone()}
    torch.manual_seed(5)
    conv = HeteroConv({kind: regard.nn.GATv2Conv(5, 3, add_self_loops=False) for kind in edges})

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x_dict, edge_index_dict):
            return self.conv(x_dict, edge_index_dict)["a"]

    masks = explainer(Model(), MapExplainer())(x, edges).collect("edge_mask")
    for kind, index in edges.items():
        assert_close(masks[kind], conv.convs[kind](X, index, return_map=True)[1].edges().amax(0).detach())


def test_what_cannot_be_explained_is_said():
    with pytest.raises(ValueError, match="does not support"):
        explainer(two(ours), MapExplainer(), node_mask_type="object")
    with pytest.raises(ValueError, match="No attention over the 9 edges"):
        explainer(_Plain(), MapExplainer())(X, INDEX)
    with pytest.raises(ValueError, match='expected "max", "mean"'):
        MapExplainer("median")


class _Plain(nn.Module):
    def forward(self, x, edge_index):
        return x


def test_gps_with_attention_over_segments_is_gps_without_padding():
    """GPSConv pads graphs to the largest; attention over Segments(batch) gives the same rows without it."""
    torch.manual_seed(6)
    gps = GPSConv(8, ours.GATv2Conv(8, 8), heads=2, attn_type="multihead").eval()
    x, batch = torch.randn(6, 8), torch.tensor([0, 0, 0, 0, 1, 1])
    dense, mask = to_dense_batch(x, batch)
    padded = gps.attn(dense, dense, dense, key_padding_mask=~mask, need_weights=False)[0][mask]
    attention = regard.nn.Attention.from_torch(gps.attn)
    assert_close(attention(x[None], over=regard.Segments(batch)).out[0], padded)
    assert gps(x, INDEX, batch).shape == (6, 8)  # with our layer as its local part


def test_a_pooled_graph_is_the_weighted_sum_of_its_nodes():
    torch.manual_seed(7)
    pool, batch = ours.AttentionalAggregation(nn.Linear(5, 1)), torch.tensor([0, 0, 1, 1, 1, 3])
    out, amap = pool(X, batch, dim_size=4, return_map=True)
    assert_close(out, global_add_pool(X * amap.edges()[0, :, None], batch, size=4))
    assert_close(out, pyg.nn.aggr.AttentionalAggregation(pool.gate_nn)(X, batch, dim_size=4))


@pytest.mark.parametrize("name", ["RGATConv", "HANConv", "HGTConv"])
def test_layers_without_masks_say_so_to_explainers(name):
    metadata = (["a"], [("a", "to", "a")])
    if name == "RGATConv":
        conv, given = ours.RGATConv(5, 3, 1), (X, INDEX, torch.zeros(INDEX.shape[1]).long())
    else:
        conv, given = getattr(ours, name)(5, 4, metadata), ({"a": X}, {("a", "to", "a"): INDEX})
    assert conv(*given) is not None
    conv.explain = True
    with pytest.raises(ValueError, match=rf"{name} applies no masks .* MapExplainer"):
        conv(*given)


def test_layers_are_copied_pickled_and_compiled():
    conv = ours.GATConv(5, 3, heads=2)
    for twin in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert torch.equal(twin(X, INDEX), conv(X, INDEX))
    compiled = torch.compile(conv, backend="eager", fullgraph=True)
    assert_close(compiled(X, INDEX), conv(X, INDEX))
