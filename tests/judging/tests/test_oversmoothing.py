"""Over-smoothing and range: measures that are 0 where nodes are alike, and exactly 0 where nothing is heard."""

import itertools
import math

import pytest
import torch
from pytest import approx

from regard.judging.tests.oversmoothing import dirichlet, influence, mad, spread
from regard.models.deep_gnn import DeepGNN

STAR = torch.tensor([[1, 2, 3, 0, 0, 0], [0, 0, 0, 1, 2, 3]])  # degrees 3, 1, 1, 1


def test_equal_nodes_have_none_of_it_also_where_degrees_differ():
    h = torch.tensor([[1.0, -2.0]]).expand(4, 2)
    assert spread(h) == approx(0, abs=1e-12) and dirichlet(h, STAR) == 0 and mad(h, STAR) == approx(0, abs=1e-12)
    zero = torch.zeros(4, 2)
    assert spread(zero) == dirichlet(zero, STAR) == mad(zero, STAR) == 0
    assert mad(h, STAR[:, :0]) == dirichlet(h, STAR[:, :0]) == 0


def test_by_hand():
    h = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [2, 0]])
    mean = torch.tensor([0.5, 0.25])
    assert spread(h) == approx(float((h - mean).norm() / h.norm()))
    assert dirichlet(h, STAR) == approx((2 + 4 + 1) / 3 / 2 / (7 / 4))  # both directions: the mean is that of one
    assert mad(h, STAR) == approx(((1 + 2 + 0) / 3 + 1 + 2 + 0) / 4)
    assert mad(10 * h, STAR) == approx(mad(h, STAR)) and dirichlet(10 * h, STAR) == approx(dirichlet(h, STAR))
    assert spread(torch.tensor([[1.0], [-1.0]])) == approx(1)


@pytest.mark.parametrize("kind", ["gat", "gatv2", "mean", "gcn"])
def test_nothing_is_heard_from_beyond_the_layers(kind):
    chain = torch.stack([torch.arange(6), torch.arange(1, 7)])
    edges, model = torch.cat([chain, chain.flip(0)], 1), DeepGNN(3, 8, 2, kind, layers=3)
    found = influence(lambda x: model.hidden(x, edges)[-1], torch.randn(7, 3), 0)
    assert (found[4:] == 0).all() and (found[:4] > 0).all()


def test_influence_is_the_size_of_the_derivative():
    a = torch.randn(4, 4)
    assert influence(lambda x: a @ x, torch.randn(4, 2), 1).tolist() == approx((a[1].abs() * math.sqrt(2)).tolist())


def test_averaging_again_and_again_makes_nodes_alike():
    h, found = torch.randn(4, 3), []
    for _ in range(12):
        found.append(spread(h))
        heard = h.clone().index_add_(0, STAR[1], h[STAR[0]])
        h = heard / torch.tensor([[4.0], [2], [2], [2]])
    assert found[-1] < 1e-2 and all(a > b for a, b in itertools.pairwise(found[3:]))
