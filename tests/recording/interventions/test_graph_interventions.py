"""Other weights on the edges of a graph: torch_geometric's layers and ours go on with what they were given."""

import pytest
import torch

import regard
from regard.nn import graph as rg
from regard.recording.interventions.interventions import DropHeads, Freeze, KnockOut, Permute, Replace, Uniform

pyg = pytest.importorskip("torch_geometric.nn")
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 4, 2, 0, 5], [1, 2, 1, 3, 2, 4, 4, 0, 5, 2, 2]])
KINDS, NODES = torch.arange(11) % 2, 6


def layers():
    x, attr = torch.randn(NODES, 8), torch.randn(11, 3)
    return {
        "GATConv": (pyg.GATConv(8, 4, heads=3), (x, EDGES)),
        "GATv2Conv": (pyg.GATv2Conv(8, 4, heads=3), (x, EDGES)),
        "TransformerConv": (pyg.TransformerConv(8, 4, heads=3), (x, EDGES)),
        "SuperGATConv": (pyg.SuperGATConv(8, 4, heads=3), (x, EDGES)),
        "RGATConv": (pyg.RGATConv(8, 4, 2, heads=3), (x, EDGES, KINDS)),
        "RGATConv within": (
            pyg.RGATConv(8, 4, 2, heads=3, attention_mechanism="within-relation"),
            (x, EDGES, KINDS),
        ),
        "FAConv": (pyg.FAConv(8), (x, x, EDGES)),
        "our GATConv": (rg.GATConv(8, 4, heads=3), (x, EDGES)),
        "our TransformerConv": (rg.TransformerConv(8, 4, heads=3, edge_dim=3), (x, EDGES, attr)),
    }


@pytest.fixture(params=list(layers()))
def layer(request):
    made, inputs = layers()[request.param]
    return made.eval(), inputs


def ran(layer, intervention, **options):
    conv, inputs = layer
    with regard.record(conv) as rec, regard.intervene(conv, intervention, **options):
        out = conv(*inputs)
    return out, next(iter(rec.maps.values()))


def recorded(layer):
    conv, inputs = layer
    with regard.record(conv) as rec:
        out = conv(*inputs)
    return out, rec


@torch.no_grad()
def test_own_weights_reproduce_the_output(layer):
    out, rec = recorded(layer)
    again, amap = ran(layer, Freeze(rec))
    assert torch.allclose(again, out, atol=1e-6)
    assert torch.equal(amap.edges(), next(iter(rec.maps.values())).edges())
    halved, amap = ran(layer, Replace(lambda w, here: w * 0.5))
    assert not torch.allclose(halved, out, atol=1e-3)
    assert torch.allclose(amap.edges(), next(iter(rec.maps.values())).edges() / 2, atol=1e-6)
    permuted, amap = ran(layer, Permute(3))
    before = next(iter(rec.maps.values()))
    assert torch.allclose(amap.weights().sum(-1), before.weights().sum(-1), atol=1e-5)
    assert not torch.equal(amap.edges(), before.edges())
    assert torch.equal(permuted, ran(layer, Permute(3))[0])


@torch.no_grad()
def test_heads_that_are_left_alone_keep_their_bits(layer):
    conv, _ = layer
    if getattr(conv, "heads", 1) != 3:
        return  # FAConv has one head: there is none to be left alone
    out, _ = recorded(layer)
    dropped, amap = ran(layer, DropHeads([1]))
    assert not amap.weights()[1].any()
    assert torch.equal(dropped[:, [*range(4), *range(8, 12)]], out[:, [*range(4), *range(8, 12)]])
    level, _ = ran(layer, Uniform(), heads=[0])
    assert torch.equal(level[:, 4:], out[:, 4:])
    assert not torch.equal(level[:, :4], out[:, :4])


def test_weights_can_be_optimised(layer):
    conv, inputs = layer
    with torch.no_grad():
        out, rec = recorded(layer)
    start = next(iter(rec.maps.values()))
    put = torch.cat([start.edges(), start.loops], -1).requires_grad_(True)
    with regard.intervene(conv, Replace(put)):
        changed = conv(*inputs)
    assert torch.allclose(changed, out, atol=1e-6)
    (grad,) = torch.autograd.grad(changed[2].sum(), put)
    into = EDGES[1] == 2
    assert (grad[..., :11][..., into] != 0).any()
    assert not grad[..., :11][..., ~into].any()


@torch.no_grad()
def test_uniform_is_a_mean():
    conv, inputs = layers()["GATConv"]
    out, _ = ran((conv, inputs), Uniform())
    h = conv.lin(inputs[0])
    neighbours = torch.tensor([0, 1, 3, 5, 2])  # of node 2, itself among them
    assert torch.allclose(out[2], h[neighbours].mean(0) + conv.bias, atol=1e-6)


@torch.no_grad()
def test_a_closed_edge_gives_its_weight_to_those_it_was_normalised_with():
    source, target = 0, 2  # the edge 9, of kind 1; beside it at node 2: 1 (kind 1), 3 (kind 0), 5 (kind 0)
    for name, mates in {"TransformerConv": [1, 4, 10], "RGATConv within": [1], "FAConv": []}.items():
        pair = layers()[name]
        before = next(iter(recorded(pair)[1].maps.values())).edges()
        _, amap = ran(pair, KnockOut([(target, source)]))
        after = amap.edges()
        assert not after[..., 9].any()
        grown = [e for e in range(11) if e != 9 and not torch.allclose(after[..., e], before[..., e], atol=1e-6)]
        assert grown == mates, name
        if mates:
            assert torch.allclose(after[..., mates].sum(-1), torch.ones(before.shape[0]), atol=1e-5)


@torch.no_grad()
def test_nothing_changes_where_no_site_fits(layer):
    conv, inputs = layer
    out = conv(*inputs)
    with pytest.warns(UserWarning, match="fits no site"), regard.intervene(conv, {"elsewhere": Uniform()}):
        same = conv(*inputs)
    assert torch.equal(out, same)


@torch.no_grad()
def test_our_layers_return_the_weights_that_ran():
    x = torch.randn(NODES, 8)
    conv = rg.GATConv(8, 4, heads=2)
    with regard.intervene(conv, Uniform()):
        _, amap = conv(x, EDGES, return_map=True)
        _, (ran_edges, weights) = conv(x, EDGES, return_attention_weights=True)
    assert torch.allclose(amap.edges()[:, 1], torch.full((2,), 1 / 5))  # node 2 has four neighbours and itself
    assert torch.allclose(weights[ran_edges[1] == 2], torch.full((5, 2), 1 / 5))
    pool = rg.SAGPooling(8, ratio=2, GNN=rg.GATConv)
    with regard.intervene(pool, Uniform()):
        assert pool(x, EDGES)[0].shape == (2, 8)
    plain = rg.SAGPooling(8, ratio=2)
    with regard.record(plain) as rec, regard.intervene(plain, Uniform()):
        plain(x, EDGES)
    assert not rec.missed
    kinds = (["a"], [("a", "to", "a")])
    for layer in (rg.HGTConv(8, 4, kinds, heads=2), rg.HANConv(8, 4, kinds, heads=2)):
        with regard.intervene(layer, Uniform()):
            _, typed, *_ = layer({"a": x}, {kinds[1][0]: EDGES}, return_map=True)
        found = typed[kinds[1][0]]
        found = found if isinstance(found, torch.Tensor) else found.edges()
        assert torch.allclose(found[:, 1], torch.full((2,), 1 / 4))


def test_weights_equal_to_the_models_own_are_others_to_a_gradient():
    conv, x, edges = rg.GATConv(3, 2), torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 1, 1, 2]])
    mask = torch.ones(1, requires_grad=True)
    with regard.intervene(conv, {"*": Replace(lambda weights, here: weights.detach() * mask)}):
        out = conv(x, edges)
    out.sum().backward()
    assert conv.att_src.grad is None and mask.grad.item() == pytest.approx(float((out - conv.bias).sum().detach()))
