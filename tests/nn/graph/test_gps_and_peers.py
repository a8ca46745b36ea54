"""Layers that torch_geometric has too: its numbers where it is right, and what its padding does where it is not."""

from typing import Any

import pytest
import torch
from tests.nn.graph.parity import assert_same, features
from torch.testing import assert_close

pyg = pytest.importorskip("torch_geometric")

import torch_geometric.nn as peers  # noqa: E402
from torch_geometric import transforms  # noqa: E402
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.nn.attention import PolynormerAttention as PeerPolynormer  # noqa: E402
from torch_geometric.nn.attention import SGFormerAttention as PeerSGFormer  # noqa: E402

import regard.nn as ours  # noqa: E402

NODES = 7
INDEX = torch.tensor([[0, 1, 2, 3, 4, 5, 1, 3], [1, 2, 3, 4, 5, 0, 4, 0]])
BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 2])  # four nodes, two, and one
INSIDE = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 0, 5, 4]])  # edges within the graphs of BATCH


def pair(conv: str = "GATConv", **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    peer = peers.GPSConv(6, getattr(peers, conv)(6, 3, heads=2), heads=2, **options)
    mine = ours.GPSConv(6, getattr(ours, conv)(6, 3, heads=2), heads=2, **options)
    return mine, peer


@pytest.mark.parametrize("conv", ["GATConv", "TransformerConv"])
@pytest.mark.parametrize("norm", ["batch_norm", None])
@pytest.mark.parametrize("act", ["relu", "gelu"])
def test_gps_conv_is_the_peers_on_a_sorted_batch(conv: str, norm: Any, act: str) -> None:
    mine, peer = pair(conv, norm=norm, act=act)
    assert_same(mine, peer, lambda layer, x: layer(x, INSIDE, batch=BATCH), [features(NODES, 6)])


def test_gps_conv_takes_the_peers_norms_and_layers() -> None:
    torch.manual_seed(0)
    conv = peers.GCNConv(6, 6)
    peer, mine = peers.GPSConv(6, conv, norm="graph_norm"), ours.GPSConv(6, peers.GCNConv(6, 6), norm=peers.GraphNorm)
    assert_same(mine, peer, lambda layer, x: layer(x, INSIDE, BATCH), [features(NODES, 6)])
    with pytest.raises(ValueError, match=r"norm=torch_geometric.nn.LayerNorm"):
        ours.GPSConv(6, None, norm="layer_norm")


def test_gps_conv_without_a_convolution_is_attention_alone() -> None:
    torch.manual_seed(0)
    peer, mine = peers.GPSConv(6, None, heads=2), ours.GPSConv(6, None, heads=2)
    assert_same(mine, peer, lambda layer, x: layer(x, INDEX, batch=BATCH), [features(NODES, 6)])


def test_an_unsorted_batch_is_that_of_the_sorted_one() -> None:
    """The peer's dense batch takes the nodes as they come: it gives other numbers, without an error."""
    mine, peer = pair(norm=None)
    mine.load_state_dict(peer.state_dict())
    x, order = features(NODES, 6).float(), torch.tensor([6, 1, 4, 0, 5, 2, 3])
    place = torch.argsort(order)
    expected = mine(x, INSIDE, BATCH)[order]
    assert_close(mine(x[order], place[INSIDE], BATCH[order]), expected)
    try:
        theirs = peer(x[order], place[INSIDE], BATCH[order])
    except (RuntimeError, IndexError):
        return
    assert theirs.shape != expected.shape or (theirs - expected).abs().max() > 1e-3


def test_attention_is_exact_for_each_graph_and_nothing_is_padded() -> None:
    """One graph of 400 nodes and 60 of 2: the peer pads to 61 x 400 x 400 weights a head, 18 times what there are."""
    sizes = torch.tensor([400] + 60 * [2])
    batch = torch.repeat_interleave(torch.arange(61), sizes)
    layer = ours.GraphSelfAttention(8, 2)
    out, amap = layer(torch.randn(len(batch), 8), batch, return_map=True)
    assert_close(amap.tile(slice(400, 402), slice(400, 402)).sum(-1), torch.ones(2, 2))
    assert (amap.tile(slice(400, 402), slice(0, 400)) == 0).all() and out.isfinite().all()


@pytest.mark.parametrize("heads", [1, 2])
def test_sgformer_attention_is_the_peers_on_one_graph(heads: int) -> None:
    """In single precision: the peer makes ones of the default type."""
    peer, mine = PeerSGFormer(6, heads, 4, qkv_bias=True), ours.SGFormerAttention(6, heads, 4, qkv_bias=True)
    mine.load_state_dict(peer.state_dict())
    found = []
    for layer in (mine, peer):
        x = features(1, NODES, 6).float().requires_grad_()
        out = layer(x)
        found.append((out, *torch.autograd.grad(out.sin().sum(), [x, *layer.parameters()])))
    for a, b in zip(*found, strict=True):
        assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_polynormer_attention_is_the_peers_on_one_graph(shared: bool) -> None:
    given: dict[str, Any] = {"heads": 2, "head_channels": 4, "qk_shared": shared, "qkv_bias": True}
    peer, mine = PeerPolynormer(6, **given), ours.PolynormerAttention(6, **given)
    assert_same(mine, peer, lambda layer, x: layer(x), [features(1, NODES, 6)])


@pytest.mark.parametrize("kind", ["SGFormerAttention", "PolynormerAttention"])
def test_a_graph_gives_the_same_whoever_is_in_its_batch(kind: str) -> None:
    """The peers' normalisers count the padding, and SGFormer's n is that of the largest graph of the batch."""
    torch.manual_seed(0)
    theirs = {"SGFormerAttention": PeerSGFormer, "PolynormerAttention": PeerPolynormer}[kind]
    peer, mine = theirs(6, 2, 4), getattr(ours, kind)(6, 2, 4)
    mine.load_state_dict(peer.state_dict())
    x = features(NODES, 6).float()
    alone, together = mine(x[4:6]), mine(x, BATCH)[4:6]
    assert_close(alone, together)
    assert_close(peer(x[None, 4:6])[0], alone)
    dense, mask = pyg.utils.to_dense_batch(x, BATCH)
    assert (peer(dense, mask)[1, :2] - alone).abs().max() > 1e-3


def test_return_probabilities_are_those_of_the_transform() -> None:
    index = torch.cat([INDEX, INDEX.flip(0)], 1)
    theirs = transforms.AddRandomWalkPE(5)(Data(edge_index=index, num_nodes=NODES)).random_walk_pe
    assert_close(ours.walk_encoding(index, NODES, 6).absolute[:, 1:], theirs)


def test_encodings_of_the_transforms_go_into_a_layer() -> None:
    index = torch.cat([INDEX, INDEX.flip(0)], 1)
    data = Data(x=features(NODES, 6).float(), edge_index=index)
    data = transforms.AddLaplacianEigenvectorPE(2, is_undirected=True)(transforms.AddRandomWalkPE(3)(data))
    x = torch.cat([data.x, data.laplacian_eigenvector_pe, data.random_walk_pe], -1).float()
    out = ours.GPSConv(11, ours.GATConv(11, 11), norm="layer")(x, data.edge_index)
    assert out.shape == (NODES, 11) and out.isfinite().all()
