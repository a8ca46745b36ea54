"""Multi-hop attention against a plain loop: every way to change the question, tied or not."""

import pytest
import torch
from tests.nn.unrolled import read
from torch.testing import assert_close

from regard import Additive, Padding
from regard.nn import Attend, MultiHopAttention


def rows(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("transform", ["identity", "linear", "gru", "stacked"])
def test_hops_follow_one_another(transform, tied):
    made = MultiHopAttention(4, hops=3, transform=transform, tied=tied).double()
    query, features, lengths = rows(2, 2, 4), rows(2, 5, 4), torch.tensor([5, 2])
    found = made(query, features, Padding(lengths))
    for item, n in enumerate(lengths.tolist()):
        there = features[item, :n]
        for row in range(2):
            q, c = query[item, row], there.mean(0)
            for hop in range(3):
                look = made.looks[0 if tied else hop].score
                if transform == "stacked":
                    q = q + read(look, q, there)
                    continue
                if transform != "identity":
                    turn = made.turns[0 if tied else hop]
                    q = turn(torch.cat([q, c])) if transform == "linear" else turn(c[None], q[None])[0]
                c = read(look, torch.cat([q, c]), there)
            assert_close(found.out[item, row], q if transform == "stacked" else c)


@pytest.mark.parametrize("transform", ["identity", "linear", "gru", "stacked"])
def test_tied_hops_have_the_parameters_of_one_whatever_their_number(transform):
    def count(hops, tied):
        made = MultiHopAttention(4, hops=hops, transform=transform, tied=tied)
        return sum(p.numel() for p in made.parameters())

    assert count(5, True) == count(2, True) == count(1, False)
    assert count(3, False) == 3 * count(1, False)


@pytest.mark.parametrize("transform", ["identity", "linear", "gru", "stacked"])
def test_the_output_depends_on_the_question_and_on_the_first_hop(transform):
    made, query, features = MultiHopAttention(4, transform=transform).double(), rows(2, 1, 4), rows(2, 5, 4)
    query.requires_grad_()
    made(query, features).out.square().sum().backward()
    assert query.grad.abs().max() > 0
    assert all(p.grad.abs().max() > 0 for p in made.looks[0].parameters())


def test_one_hop_that_ignores_what_was_read_is_attention():
    made, query, features = MultiHopAttention(3, 4, hops=1).double(), rows(2, 2, 3), rows(2, 5, 4)
    plain = Attend(3, 4, Additive(3, 4, width=7)).double()
    with torch.no_grad():
        made.looks[0].score.query[..., 3:] = 0
        plain.score.query.copy_(made.looks[0].score.query[..., :3])
        for name in ("key", "bias", "v"):
            getattr(plain.score, name).copy_(getattr(made.looks[0].score, name))
    assert_close(made(query, features).out, plain(query, features).out)


def test_each_hop_has_its_map():
    found = MultiHopAttention(4, hops=3)(torch.randn(2, 1, 4), torch.randn(2, 5, 4))
    assert list(found.maps) == ["hop_1", "hop_2", "hop_3"]
    assert not torch.equal(found.maps["hop_1"].weights(), found.maps["hop_2"].weights())
