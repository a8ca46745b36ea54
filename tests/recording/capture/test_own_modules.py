"""Recording our own attend: the maps it returns, once each, whatever ran inside."""

import pytest
import torch
from torch import nn

import regard.nn as rn
from regard import Edges, Mask, attend
from regard.core import attend as core
from regard.core.scores import Score
from regard.models import GAT
from regard.nn import graph as rg
from regard.recording import record

EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 2, 0], [1, 2, 1, 3, 2, 4, 0, 0, 2]])
NODES, WIDE = 5, 6
BATCH = torch.tensor([0, 0, 0, 1, 1])


def only(rec):
    assert not rec.missed
    assert len(rec.maps) == 1
    return next(iter(rec.maps.values()))


@pytest.mark.parametrize("backend", ["sdpa", "chunked", "reference"])
def test_a_call_is_heard_once_on_every_backend(backend):
    q, k, v = (torch.randn(2, 3, n, 4) for n in (5, 7, 7))
    bare = attend(q, k, v, backend=backend)
    with record() as rec:
        ran = attend(q, k, v, backend=backend)
    assert torch.equal(bare.out, ran.out)
    amap = only(rec)
    assert list(rec.maps) == ["function"]
    assert torch.equal(amap.weights(), ran.map.weights())
    assert not core.call_hooks


def test_linear_attention_and_edges_on_the_cpu_are_heard_once():
    q, v = torch.rand(3, 9, 4), torch.randn(3, 9, 4)
    index = torch.randint(0, 9, (2, 30))
    with record() as rec:
        a = attend(q, q, v, "linear_kernel", backend="linear")
        b = attend(q, q, v, over=Edges(index), backend="edges-cpu")
    assert not rec.missed and list(rec.maps) == ["function", "function:1"]
    assert torch.equal(rec.maps["function"].weights(), a.map.weights())
    assert torch.equal(rec.maps["function:1"].edges(), b.map.edges())


@pytest.mark.parametrize("align", ["softmax", "sparsemax", "entmax15", "sigmoid", "hard", "uniform"])
@pytest.mark.parametrize("shape", [(7, 4), (3, 7, 4), (2, 3, 7, 4)])
def test_any_alignment_and_any_shape(align, shape):
    q = torch.randn(shape)
    with record() as rec:
        ran = attend(q, q, q, align=align)
    assert rec.maps["function"].lead == ran.map.lead
    assert torch.equal(only(rec).weights(), ran.map.weights())


def test_later_changes_in_place_do_not_reach_the_record():
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    keep = torch.rand(6, 6) > 0.3
    keep.fill_diagonal_(True)
    with record() as rec:
        ran = attend(q, k, v, over=Mask(keep=keep))
    want = ran.map.weights().clone()
    for tensor in (q, k, v):
        tensor.zero_()
    keep.fill_(True)
    assert torch.equal(only(rec).weights(), want)
    with pytest.raises(RuntimeError, match="changed in place"):
        ran.map.weights()


class Mine(Score):
    """A score of the user's own."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, q, k):
        return torch.einsum("...id,...jd,d->...ij", q.tanh(), k.tanh(), self.w)


def test_a_score_of_the_users_own_is_kept_as_weights():
    q, score = torch.randn(2, 5, 4), Mine()
    with record() as rec:
        ran = attend(q, q, q, score)
    want = ran.map.weights().clone()
    with torch.no_grad():
        score.w.zero_()
    assert torch.equal(only(rec).weights(), want)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = rn.Attention(8, 2)
        self.second = rn.Attention(8, 2)

    def forward(self, x):
        x = x + self.first(x).out
        return x + self.second(x).out


@pytest.mark.parametrize("keep", ["qk", "weights", "topk", "stats"])
def test_modules_have_their_sites(keep):
    model, x = Two().eval(), torch.randn(2, 5, 8)
    bare = model(x)
    with record(model, keep=keep, k=5) as rec:
        out = model(x)
    assert torch.equal(bare, out) and not rec.missed
    assert [str(site) for site in rec.sites] == ["first", "second"]
    with record(model) as whole:
        model(x)
    if keep == "stats":
        assert torch.equal(rec.stats["second"].entropy, whole.maps["second"].entropy())
    else:
        assert torch.allclose(rec.maps["second"].weights(), whole.maps["second"].weights(), atol=1e-7)


def test_attention_of_others_beside_ours_is_heard_too():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.ours = rn.Attention(8, 2)

        def forward(self, x):
            y = self.ours(x).out
            q = x[:, None]
            return y + nn.functional.scaled_dot_product_attention(q, q, q)[:, 0] + (x @ x.mT).softmax(-1) @ x

    model = Both()
    with record(model) as rec:
        model(torch.randn(2, 5, 8))
    assert list(rec.maps) == ["ours", "Both", "Both:1"] and not rec.missed


@pytest.mark.parametrize("align", ["softmax", "sparsemax"])
def test_gradients_of_the_weights(align):
    q, k, v = (torch.randn(2, 2, 5, 4, requires_grad=True) for _ in range(3))
    with record(grad=True) as rec:
        out = attend(q, k, v, align=align).out
    pull = torch.randn(out.shape)
    (out * pull).sum().backward()
    want = pull @ v.detach().mT
    assert torch.allclose(rec.gradients["function"].weights(), want, atol=1e-6)


def test_an_error_leaves_nothing_behind_and_other_threads_run_on():
    q = torch.randn(2, 5, 4)
    with pytest.raises(ValueError), record():
        attend(q, q, q, align="no such")
    assert not core.call_hooks
    with record() as outer:
        with record() as inner:
            attend(q, q, q)
        attend(q, q, q)
    assert len(inner.maps) == 1 and len(outer.maps) == 2 and not core.call_hooks


def lots_of_layers():
    kinds = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0])
    attr = torch.randn(9, 3)
    x = torch.randn(NODES, WIDE)
    return {
        "GATConv": (rg.GATConv(WIDE, 4, heads=2), (x, EDGES)),
        "GATConv edges": (rg.GATConv(WIDE, 4, heads=2, edge_dim=3), (x, EDGES, attr)),
        "GATConv entmax15": (rg.GATConv(WIDE, 4, heads=2, align="entmax15"), (x, EDGES)),
        "GATv2Conv": (rg.GATv2Conv(WIDE, 4, heads=2), (x, EDGES)),
        "TransformerConv": (rg.TransformerConv(WIDE, 4, heads=2, edge_dim=3), (x, EDGES, attr)),
        "SuperGATConv": (rg.SuperGATConv(WIDE, 4, heads=2), (x, EDGES)),
        "AGNNConv": (rg.AGNNConv(), (x, EDGES)),
        "RGATConv": (rg.RGATConv(WIDE, 4, 2, heads=2), (x, EDGES, kinds)),
        "SimpleHGNConv": (rg.SimpleHGNConv(WIDE, 4, 2, heads=2), (x, EDGES, kinds)),
        "AttentionalAggregation": (rg.AttentionalAggregation(nn.Linear(WIDE, 1)), (x, BATCH)),
        "GatedReadout": (rg.GatedReadout(WIDE, 3), (x, None, BATCH)),
    }


@pytest.mark.parametrize("keep", ["qk", "weights"])
@pytest.mark.parametrize("name", lots_of_layers())
def test_graph_layers_have_the_maps_that_they_return(name, keep):
    layer, inputs = lots_of_layers()[name]
    layer.eval()
    *bare, amap = layer(*inputs, return_map=True)
    with record(layer, keep=keep) as rec:
        out = layer(*inputs)
    assert torch.equal(bare[0], out[0] if isinstance(out, tuple) else out)
    assert not rec.missed
    found = rec.maps[type(layer).__name__]
    assert torch.equal(found.edges(), amap.edges())
    assert torch.equal(found.loops, amap.loops)
    assert torch.equal(found.weights(), amap.weights())
    assert torch.allclose(found.entropy(), amap.entropy(), atol=1e-6)
    assert torch.allclose(found.strongest(2).weight, amap.strongest(2).weight)


TYPES = (["a", "p"], [("a", "writes", "p"), ("p", "by", "a")])


@pytest.mark.parametrize("kind", [rg.HANConv, rg.HGTConv])
def test_typed_layers(kind):
    x = {"a": torch.randn(3, WIDE), "p": torch.randn(4, WIDE)}
    index = {TYPES[1][0]: torch.tensor([[0, 1, 2], [0, 1, 3]]), TYPES[1][1]: torch.tensor([[0, 3, 1], [0, 2, 1]])}
    layer = kind(WIDE, 4, TYPES, heads=2).eval()
    bare, maps, *_ = layer(x, index, return_map=True)
    with record(layer) as rec:
        out = layer(x, index)
    assert not rec.missed and all(torch.equal(out[k], bare[k]) for k in bare)
    found = list(rec.maps.values())
    if kind is rg.HGTConv:
        assert torch.equal(only(rec).edges(), maps.joint.edges())
    else:
        assert len(found) == 4  # two types of edges, then over the types for each of two types of nodes
        for amap, each in zip(found, maps.values(), strict=False):
            assert torch.equal(amap.edges(), each.edges())


def test_gat_and_the_gradient_of_its_weights():
    model, x = GAT(WIDE, 4, 3, nheads=2).eval(), torch.randn(NODES, WIDE)
    bare, maps = model(x, EDGES, return_maps=True)
    with record(model, grad=True) as rec:
        out = model(x, EDGES)
    assert torch.equal(bare, out) and list(rec.maps) == ["attentions", "out_att"] and not rec.missed
    for amap, want in zip(rec.maps.values(), maps, strict=True):
        assert torch.equal(amap.edges(), want.edges())
    out[0, 1].backward()
    # the last layer by its definition: out_i = sum w_e h_j, mean over heads, log softmax
    layer = model.out_att
    grads = rec.gradients["out_att"]
    h = torch.nn.functional.elu(model.attentions(x, EDGES)).detach()
    values = layer.lin(h)  # one head
    w = maps[1].weights()[0].clone().requires_grad_(True)
    (want,) = torch.autograd.grad(torch.log_softmax(w @ values + layer.bias, -1)[0, 1], w)
    for e, (source, target) in enumerate(EDGES.T.tolist()):
        if source != target or e in (2, 5):
            assert torch.allclose(grads.edges()[0, e], want[target, source], atol=1e-6)
