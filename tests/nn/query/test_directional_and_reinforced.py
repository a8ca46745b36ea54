"""DiSA and ReSA: feature-wise weights, one-sided masks and drawn tokens, against plain loops."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from regard import Padding
from regard.nn import DirectionalSelfAttention, DiSAN, ReinforcedSelfAttention


def features(n=5, d=4):
    return torch.randn(2, n, d, dtype=torch.float64)


def context(attention, h, i, others):
    """What token i reads, feature by feature, by DiSA's score."""
    score = attention.score.score
    if not others:
        return torch.zeros_like(h[i])
    hidden = [score.query[0] @ h[i] + score.key[0] @ h[j] + score.bias[0] for j in others]
    s = torch.stack([5 * torch.tanh(x / 5) for x in hidden])
    w = torch.exp(s) / torch.exp(s).sum(0)  # over positions, for each feature
    return (w * h[others]).sum(0)


def fused(fusion, old, new):
    gate = torch.sigmoid(fusion.old(old) + fusion.new(new))
    return gate * old + (1 - gate) * new


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_every_token_reads_one_side(direction):
    made, x = DirectionalSelfAttention(4, 3, direction=direction).double(), features()
    found = made(x, Padding(torch.tensor([5, 3])))
    for item, n in enumerate((5, 3)):
        h = torch.nn.functional.elu(made.hidden(x[item, :n]))
        for i in range(n):
            others = list(range(i)) if direction == "forward" else list(range(i + 1, n))
            assert_close(found.out[item, i], fused(made.fusion, h[i], context(made.attention, h, i, others)))


def test_the_first_token_has_nobody_to_read_and_no_nan():
    made, x = DirectionalSelfAttention(4).double(), features().requires_grad_()
    found = made(x)
    weights = found.map.weights()  # (2, 1, 4, 5, 5)
    assert weights[..., 0, :].abs().max() == 0
    assert weights.diagonal(dim1=-2, dim2=-1).abs().max() == 0
    assert_close(weights[..., 1:, :].sum(-1), torch.ones(2, 1, 4, 4, dtype=torch.float64))
    found.out.sum().backward()
    assert x.grad.isfinite().all()


def test_disan_pools_both_directions_feature_by_feature():
    made, x = DiSAN(4).double(), features()
    found = made(x)
    u = torch.cat([made.onward(x).out, made.backward(x).out], -1)
    score = made.pool.score
    s = torch.tanh(u @ score.key[0].T + score.bias[0]) @ score.w[0]  # (2, 5, 8)
    expected = (torch.softmax(s, 1) * u).sum(1)
    assert_close(found.out, expected)
    assert_close(found.maps["pooled"].weights().sum(-1), torch.ones(2, 1, 8, 1, dtype=torch.float64))


def chance(policy, x):
    """pi of each token, from the formula."""
    whole = x.mean(0).expand_as(x)
    hidden = torch.nn.functional.elu(policy.hidden(torch.cat([x, whole, x * whole], -1)))
    return torch.sigmoid(policy.out(hidden)).squeeze(-1)


def awake(dim=4):
    """Policies that are not all alike."""
    made = ReinforcedSelfAttention(dim).double()
    for policy in (made.readers, made.read):
        torch.nn.init.normal_(policy.out.weight, std=2.0)
        torch.nn.init.normal_(policy.hidden.weight)
    return made


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_drawn_tokens_read_drawn_tokens(training):
    made, x = awake().train(training), features()
    found = made(x, Padding(torch.tensor([5, 3])))
    assert found.sample.index.shape == (2, 2, 5)
    for item, n in enumerate((5, 3)):
        there = x[item, :n]
        pi = [chance(policy, there) for policy in (made.readers, made.read)]
        z = found.sample.index[item, :, :n]
        if not training:
            assert [line.tolist() for line in z] == [(p >= 0.5).tolist() for p in pi]
        log_prob = sum(torch.where(z[k], pi[k], 1 - pi[k]).log().sum() for k in range(2))
        assert_close(found.sample.log_prob[item], log_prob)
        h = torch.nn.functional.elu(made.hidden(there))
        for i in range(n):
            others = [j for j in range(n) if z[1, j] and j != i]
            c = context(made.attention, h, i, others) if z[0, i] else h.mean(0)
            assert_close(found.out[item, i], fused(made.fusion, h[i], c))


def test_the_enumerated_policy_gradient_is_that_of_the_expected_cost():
    """All 2^n draws of one policy: sum_z p(z) (cost(z) - b) grad log p(z) = grad E[cost], for any b."""
    made, x = awake(), features(n=3)[:1]
    cost = {z: torch.randn((), dtype=torch.float64) for z in itertools.product((0, 1), repeat=3)}
    parameters = list(made.read.parameters())

    def log_prob(z):
        pi = chance(made.read, x[0])
        return torch.where(torch.tensor(z) == 1, pi, 1 - pi).log().sum()

    exact = torch.autograd.grad(sum(log_prob(z).exp() * c for z, c in cost.items()), parameters)
    for baseline in (0.0, 0.7):
        terms = sum(log_prob(z).exp().detach() * (c - baseline) * log_prob(z) for z, c in cost.items())
        for a, b in zip(torch.autograd.grad(terms, parameters), exact, strict=True):
            assert_close(a, b)


def test_the_policy_loss_weighs_log_probabilities_by_cost_and_share():
    made, x = awake().train(), features()
    found, cost = made(x), torch.tensor([0.3, 1.2], dtype=torch.float64)
    share = found.sample.index.double().mean((1, 2))
    expected = ((cost + 0.5 * share - 0.1) * found.sample.log_prob).mean()
    assert_close(made.policy_loss(found, cost, selected=0.5, baseline=0.1), expected)


def test_only_the_policies_learn_from_the_policy_loss():
    made, x = awake().train(), features()
    made.policy_loss(made(x), torch.ones(2, dtype=torch.float64)).backward()
    learned = {name.split(".")[0] for name, p in made.named_parameters() if p.grad is not None}
    assert learned == {"readers", "read"}


def test_a_price_on_tokens_makes_the_policy_choose_fewer():
    torch.manual_seed(0)
    made, x = ReinforcedSelfAttention(4).train(), torch.randn(32, 6, 4)
    optimiser = torch.optim.Adam([*made.readers.parameters(), *made.read.parameters()], lr=0.05)
    before = made(x).sample.index.float().mean()
    for _ in range(60):
        found = made(x)
        share = found.sample.index.float().mean((-1, -2))
        loss = made.policy_loss(found, torch.zeros(32), selected=1.0, baseline=share.mean())
        optimiser.zero_grad(), loss.backward(), optimiser.step()
    assert made(x).sample.index.float().mean() < 0.5 * before
