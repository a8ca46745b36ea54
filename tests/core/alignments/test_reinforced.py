"""Reinforced attention (taxonomy 2.2 D)."""

import itertools

import pytest
import torch
from tests.core.mechanisms import built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Mask, Padding, Reinforced, attend


def chances(align: Reinforced, k: Tensor) -> Tensor:
    """pi of one item and head, k (m, d): by the formula, token by token."""
    mean = k.mean(0)
    rows = []
    for token in k:
        seen = torch.cat([token, mean, token * mean])
        hidden = torch.nn.functional.elu(align.hidden.weight @ seen + align.hidden.bias)
        rows.append(torch.sigmoid(align.out.weight[0] @ hidden + align.out.bias[0]))
    return torch.stack(rows)


def always(align: Reinforced, logit: float) -> Reinforced:
    with torch.no_grad():
        align.out.weight.zero_()
        align.out.bias.fill_(logit)
    return align


def test_a_policy_that_selects_everything_is_softmax() -> None:
    q, k, v = inputs()
    align = always(built("reinforced"), 800.0)
    for sample in (False, True):
        made = attend(q, k, v, align=align, sample=sample, seed=1)
        assert_close(made.out, attend(q, k, v).out)
        assert_close(made.sample.log_prob, torch.zeros(2, 2, dtype=torch.float64))


def test_an_empty_selection_gives_zero() -> None:
    q, k, v = inputs()
    made = attend(q, k, v, align=always(built("reinforced"), -800.0), sample=True, seed=1)
    assert (made.out == 0).all()
    assert (made.map.weights() == 0).all()
    assert not made.sample.index.any()


def test_softmax_runs_over_the_selected_tokens_and_the_others_weigh_exactly_nothing() -> None:
    q, k, v = inputs(m=8)
    made = attend(q, k, v, align=built("reinforced"), sample=True, seed=2)
    z = made.sample.index
    assert z.any()
    assert not z.all()
    weights = made.map.weights()
    assert (weights.masked_select(~z[:, :, None]) == 0).all()
    assert_close(weights, attend(q, k, v, over=Mask(keep=z[:, :, None])).map.weights())


def test_without_sampling_a_token_is_selected_where_its_chance_is_a_half_or_more() -> None:
    q, k, v = inputs(m=8)
    align = built("reinforced")
    made = attend(q, k, v, align=align)
    for b, h in itertools.product(range(2), range(2)):
        assert (made.sample.index[b, h] == (chances(align, k[b, h]) >= 0.5)).all()


def test_the_log_probability_and_the_entropy_are_those_of_independent_coins() -> None:
    q, k, v = inputs()
    align = built("reinforced")
    sample = attend(q, k, v, align=align, sample=True, seed=4).sample
    for b, h in itertools.product(range(2), range(2)):
        pi, z = chances(align, k[b, h]), sample.index[b, h]
        assert_close(sample.log_prob[b, h], torch.where(z, pi, 1 - pi).log().sum())
        assert_close(sample.entropy[b, h], -(pi * pi.log() + (1 - pi) * (1 - pi).log()).sum())
    found = torch.autograd.grad(sample.entropy.sum(), align.parameters(), retain_graph=True)
    exact = -sum((p * p.log() + (1 - p) * (1 - p).log()).sum() for p in (chances(align, x) for x in k.flatten(0, 1)))
    assert_close(found, torch.autograd.grad(exact, align.parameters()))


def test_the_mean_is_over_valid_keys_alone() -> None:
    q, k, v = inputs()
    align = built("reinforced")
    sample = attend(q, k, v, align=align, over=Padding(torch.tensor([5, 3]))).sample
    assert not sample.index[1, :, 3:].any()
    pi, z = chances(align, k[1, 0, :3]), sample.index[1, 0, :3]
    assert_close(sample.log_prob[1, 0], torch.where(z, pi, 1 - pi).log().sum())


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_the_enumerated_policy_gradient_equals_the_exact_gradient(m: int) -> None:
    q, k, v = (x[:1, :1].detach() for x in inputs(n=2, m=m))
    align = built("reinforced")
    with torch.no_grad():
        align.out.weight.mul_(0.2)  # so that no draw is rare

    def reward(out: Tensor, z: Tensor) -> Tensor:
        return -(out.square().sum() + 0.02 * z.double().mean())

    pi = chances(align, k[0, 0])
    exact = estimate = torch.zeros((), dtype=torch.float64)
    seen: set[tuple[bool, ...]] = set()
    for seed in range(2000):
        made = attend(q, k, v, align=align, sample=True, seed=seed)
        z = made.sample.index[0, 0]
        if tuple(z.tolist()) in seen:
            continue
        seen.add(tuple(z.tolist()))
        chance, value = torch.where(z, pi, 1 - pi).prod(), reward(made.out, z).detach()
        exact = exact + chance * value
        estimate = estimate + chance.detach() * value * made.sample.log_prob.sum()
        if len(seen) == 2**m:
            break
    assert len(seen) == 2**m
    assert_close(torch.autograd.grad(estimate, align.parameters()), torch.autograd.grad(exact, align.parameters()))


def test_a_price_for_each_selected_token_makes_the_policy_select_fewer() -> None:
    q, k, v = (x.detach() for x in inputs(n=1, m=6))
    share = []
    for price in (0.0, 3.0):
        align = always(Reinforced(4, 3).double(), 0.0)
        steps = torch.optim.SGD(align.parameters(), lr=0.5)
        for seed in range(60):
            made = attend(q, k, v, align=align, sample=True, seed=seed)
            cost = price * made.sample.index.double().mean(-1)
            steps.zero_grad()
            ((cost - cost.mean()) * made.sample.log_prob).mean().backward()
            steps.step()
        share.append(torch.sigmoid(align.logits(k, None)).mean().item())
    assert share[1] < share[0] - 0.05


def test_drawn_selections_have_the_frequencies_of_the_policy() -> None:
    q, k, v = (x[:1, :1].detach() for x in inputs(n=1))
    align = built("reinforced")
    pi = chances(align, k[0, 0])
    batch = 4000
    many = [x.expand(batch, 1, -1, -1) for x in (q, k, v)]
    z = attend(*many, align=align, sample=True, seed=9).sample.index[:, 0].double()
    assert (z.mean(0) - pi).abs().amax() < 4 * (0.25 / batch) ** 0.5
    assert torch.corrcoef(z.T[(pi > 0.05) & (pi < 0.95)]).tril(-1).abs().amax() < 5 / batch**0.5
