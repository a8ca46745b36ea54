"""GAT and GATv2: the class, the call and the training loop as they are usually printed."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

import regard
from regard import Edges, Mask, attend
from regard.models import GAT, GATv2


def data(n: int = 12, classes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Features that hide the class, and a directed graph in which most edges stay within one."""
    make = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % classes
    features = torch.randn(n, 6, generator=make) + F.one_hot(labels, 6)
    adj = ((labels[:, None] == labels) & (torch.rand(n, n, generator=make) < 0.7)).float()
    adj[0, 1] = 1.0
    return features, adj, labels


@pytest.mark.parametrize("kind", [GAT, GATv2])
def test_the_printed_training_loop_runs_and_learns(kind: type) -> None:
    features, adj, labels = data()
    idx_train = torch.arange(9)
    torch.manual_seed(0)
    model = kind(nfeat=6, nhid=8, nclass=3, dropout=0.6, alpha=0.2, nheads=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)

    def train() -> float:
        model.train()
        optimizer.zero_grad()
        output = model(features, adj)
        loss = F.nll_loss(output[idx_train], labels[idx_train])
        loss.backward()
        optimizer.step()
        return loss.item()

    def loss_now() -> float:
        return F.nll_loss(model.eval()(features, adj)[idx_train], labels[idx_train]).item()

    before = loss_now()
    for _ in range(60):
        assert torch.isfinite(torch.tensor(train()))
    assert loss_now() < 0.8 * before
    assert_close(model(features, adj).exp().sum(-1), torch.ones(12))


@pytest.mark.parametrize("kind", [GAT, GATv2])
def test_every_way_to_give_the_graph_gives_the_same(kind: type) -> None:
    features, adj, _ = data()
    model = kind(6, 4, 3, nheads=2).double().eval()
    x = features.double()
    expected = model(x, adj)
    assert_close(model(x, Edges.from_dense(adj).edge_index), expected)
    assert_close(model(x, adj.to_sparse()), expected)
    assert_close(model(x, adj > 0), expected)
    assert_close(model(x.to_sparse(), adj), expected)
    assert_close(model(x.to_sparse_csr(), adj), expected)


def test_a_layer_is_softmax_over_the_marked_pairs_of_the_adjacency() -> None:
    """Head by head against the dense formula; the graph is directed, so a transposed adjacency would show."""
    features, adj, _ = data()
    x = features.double()
    model = GAT(6, 4, 3, nheads=2, self_loops=False).double().eval()
    layer = model.attentions
    h = (x @ layer.lin.weight.t()).unflatten(-1, (2, 4)).transpose(0, 1)
    q, k = ((h * a[0][:, None]).sum(-1, keepdim=True) for a in (layer.att_dst, layer.att_src))
    expected = attend(q, k, h, regard.GAT(), over=Mask(keep=adj > 0), backend="reference").out
    assert_close(layer(x, adj), expected.transpose(0, 1).flatten(1))


def test_a_node_without_neighbours_attends_nobody_and_not_everybody() -> None:
    """The usual -9e15 lets an isolated node attend the whole graph uniformly."""
    features, adj, _ = data()
    adj[3] = 0
    model = GAT(6, 4, 3, nheads=2, self_loops=False).eval()
    _, maps = model(features, adj, return_maps=True)
    assert (maps[0].weights()[:, 3] == 0).all()


def test_sparse_features_are_dropped_like_dense_ones() -> None:
    features, adj, _ = data()
    model = GAT(6, 4, 3, nheads=2)
    for x in (features.to_sparse(), features.to_sparse_csr()):
        model(x, adj).sum().backward()
    assert model.attentions.lin.weight.grad.isfinite().all()
