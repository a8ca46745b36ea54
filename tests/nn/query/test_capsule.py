"""Capsules: a query for each class, both published losses, against plain loops."""

import pytest
import torch
from tests.nn.unrolled import mixed, weights
from torch.testing import assert_close

from regard import Padding
from regard.nn import CapsuleAttention


def built(classes=3):
    made = CapsuleAttention(4, classes).double()
    torch.nn.init.normal_(made.bias)
    return made


def features(n=5):
    return torch.randn(2, n, 4, dtype=torch.float64)


def test_each_class_reads_judges_and_rebuilds():
    made, x, lengths = built(), features(), [5, 2]
    found = made(x, Padding(torch.tensor(lengths)))
    similarity = made.similarity(found)
    for item, n in enumerate(lengths):
        there = x[item, :n]
        for y in range(3):
            c = mixed(weights([made.queries[y] @ f for f in there]), there)
            p = 1 / (1 + torch.exp(-(made.weight[y] @ c + made.bias[y])))
            assert_close(found.out[item, y], p)
            assert_close(similarity[item, y], (p * c) @ there.mean(0))


def test_the_published_losses_are_two():
    made, x, target = built(), features(), torch.tensor([2, 0])
    found = made(x)
    hinge = margin = 0.0
    for values in (found.out, made.similarity(found)):
        for item, true in enumerate(target.tolist()):
            wrong = [y for y in range(3) if y != true]
            v = values[item]
            hinge = hinge + torch.relu(1 + sum(v[y] for y in wrong) - v[true]) / 2
            margin = margin + sum(torch.relu(1 - v[true] + v[y]) for y in wrong) / 3 / 2
    assert_close(made.loss(found, target), hinge)
    assert_close(made.loss(found, target, "margin"), margin)


def test_the_losses_differ_in_value():
    """p = (.9, .2, .1) with class 0 true: .40 by the paper, .167 by the authors' code."""
    p = torch.tensor([[0.9, 0.2, 0.1]])
    sign = torch.tensor([-1.0, 1.0, 1.0])
    assert torch.relu(1 + (sign * p).sum()).item() == pytest.approx(0.40)
    assert torch.nn.functional.multi_margin_loss(p, torch.tensor([0])).item() == pytest.approx(0.1667, abs=1e-4)


def test_chances_are_not_normalised_over_classes():
    assert (built()(features()).out.sum(-1) - 1).abs().min() > 1e-3


def test_a_class_does_not_move_anothers_query():
    made = built()
    made(features()).out[:, 1].sum().backward()
    assert made.queries.grad[1].abs().max() > 0
    assert made.queries.grad[[0, 2]].abs().max() == 0


def test_equal_capsules_have_equal_chances():
    made = built(2)
    with torch.no_grad():
        for part in (made.queries, made.weight, made.bias):
            part[1] = part[0]
    p = made(features()).out
    assert_close(p[:, 0], p[:, 1])


@pytest.mark.parametrize("form", ["hinge", "margin"])
def test_capsules_learn_to_tell_classes_apart(form):
    torch.manual_seed(0)
    target = torch.randint(2, (64,))
    x = torch.randn(64, 6, 4)
    x[torch.arange(64), torch.randint(6, (64,)), target] += 4  # one token says which class
    made = CapsuleAttention(4, 2)
    optimiser = torch.optim.Adam(made.parameters(), lr=0.05)
    for _ in range(80):
        loss = made.loss(made(x), target, form)
        optimiser.zero_grad(), loss.backward(), optimiser.step()
    assert (made(x).out.argmax(-1) == target).float().mean() > 0.9


def test_an_unknown_loss_is_refused():
    made = built()
    with pytest.raises(ValueError, match="hinge"):
        made.loss(made(features()), torch.tensor([0, 1]), "cross")
