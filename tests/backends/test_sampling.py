"""Draws: Hard and Gumbel choose a key as often as softmax says, the same key on every backend."""

import pytest
import torch
from scipy import stats
from tests.oracle import small_blocks

from regard import Causal, Dot, Edges, Gumbel, Hard, Mask, Reinforced, Sink, attend

BACKENDS = ["reference", "chunked"]


def one_row_often(scores, align, seed, score=None):
    """One row of scores, asked by n queries: each is a draw of its own. (H, n, m) weights."""
    m = scores.shape[-1]
    q = scores.expand(1, 1, 4000, m)
    one = torch.eye(m)[None, None]
    return attend(q, one, one, score or Dot(), align, sample=True, seed=seed, backend="reference")


@pytest.mark.parametrize("align", [Hard(), Gumbel(0.3, straight_through=True)], ids=["hard", "straight-through"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_key_is_drawn_as_often_as_softmax_says(align, seed):
    scores = torch.tensor([0.0, 1.0, -2.0, 0.5, 2.0])
    counts = one_row_often(scores, align, seed).out[0, 0].sum(0)
    assert (
        stats.chisquare(counts.numpy(), 4000 * torch.softmax(scores.double(), 0).numpy(), sum_check=False).pvalue > 1e-3
    )


def test_the_largest_of_a_soft_draw_is_distributed_as_softmax_at_any_temperature():
    scores = torch.tensor([0.0, 1.0, -2.0, 0.5, 2.0])
    for temperature in (0.1, 1.0, 5.0):
        counts = one_row_often(scores, Gumbel(temperature), 5).out[0, 0].argmax(-1).bincount(minlength=5)
        assert (
            stats.chisquare(counts.numpy(), 4000 * torch.softmax(scores.double(), 0).numpy(), sum_check=False).pvalue
            > 1e-3
        )


def test_a_sink_is_drawn_as_often_as_softmax_says():
    scores = torch.tensor([0.0, 1.0, -1.0])
    result = one_row_often(scores, Hard(), 0, Dot() | Sink(1, start=0.7))
    counts = torch.cat([result.out[0, 0].sum(0), (result.out[0, 0].sum(-1) == 0).sum()[None]])
    wanted = torch.softmax(torch.cat([scores, torch.tensor([0.7])]).double(), 0)
    assert stats.chisquare(counts.numpy(), 4000 * wanted.numpy(), sum_check=False).pvalue > 1e-3
    assert torch.equal(result.sample.index[0, 0] == -2, result.out[0, 0].sum(-1) == 0)


GRAPH = Edges(torch.randint(0, 9, (2, 40), generator=torch.Generator().manual_seed(0)))
MASK = Mask(keep=torch.rand(9, 9, generator=torch.Generator().manual_seed(1)) < 0.5)


@pytest.mark.parametrize("score", [Dot(), Dot() | Sink(2), Dot(features=True)], ids=["plain", "sink", "by feature"])
@pytest.mark.parametrize("over", [None, Causal(), MASK, GRAPH], ids=["full", "causal", "mask", "edges"])
@pytest.mark.parametrize(
    ("align", "sample"),
    [(Hard(), True), (Hard(), False), (Gumbel(0.5), True), (Gumbel(0.5, straight_through=True), True)],
    ids=["drawn", "best", "gumbel", "straight-through"],
)
def test_every_backend_draws_the_same_key(align, sample, over, score):
    q, k, v = (torch.randn(2, 2, 9, 4, dtype=torch.float64) for _ in range(3))
    wanted = attend(q, k, v, score, align, over, sample=sample, seed=3, backend="reference")
    whole = attend(q, k, v, score, align, over, sample=sample, seed=3, backend="chunked")
    with small_blocks():
        blocks = attend(q, k, v, score, align, over, sample=sample, seed=3, backend="chunked")
        weights = blocks.map.weights()
    for found in (whole, blocks):
        torch.testing.assert_close(found.out, wanted.out)
        if wanted.sample is not None:
            assert torch.equal(found.sample.index, wanted.sample.index)
            torch.testing.assert_close(found.sample.log_prob, wanted.sample.log_prob)
            torch.testing.assert_close(found.sample.entropy, wanted.sample.entropy)
    torch.testing.assert_close(weights, wanted.map.weights())


@pytest.mark.parametrize("backend", BACKENDS)
def test_log_probability_and_entropy_are_those_of_the_softmax(backend):
    q, k, v = (torch.randn(2, 3, 6, 4, dtype=torch.float64) for _ in range(3))
    keep = torch.rand(6, 6) < 0.6
    keep[0] = False
    sample = attend(q, k, v, Dot(), Hard(), Mask(keep=keep), sample=True, seed=1, backend=backend).sample
    peer = torch.distributions.Categorical(logits=(q @ k.transpose(-1, -2)).masked_fill(~keep, -1e30)[..., 1:, :])
    torch.testing.assert_close(sample.log_prob[..., 1:], peer.log_prob(sample.index[..., 1:].long()))
    torch.testing.assert_close(sample.entropy[..., 1:], peer.entropy())
    assert (sample.index[..., 0] == -1).all()
    assert (sample.log_prob[..., 0] == 0).all() and (sample.entropy[..., 0] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_log_probability_has_the_gradient_of_the_softmax(backend):
    q, k, v = (torch.randn(2, 3, 6, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    sample = attend(q, k, v, Dot(), Hard(), Causal(), sample=True, seed=1, backend=backend).sample
    keep = torch.ones(6, 6, dtype=torch.bool).tril()
    peer = torch.distributions.Categorical(logits=(q @ k.transpose(-1, -2)).masked_fill(~keep, -1e30))
    for ours, theirs in ((sample.log_prob, peer.log_prob(sample.index.long())), (sample.entropy, peer.entropy())):
        pull = torch.randn_like(ours)
        found = torch.autograd.grad(ours, [q, k], pull, retain_graph=True)
        torch.testing.assert_close(found, torch.autograd.grad(theirs, [q, k], pull, retain_graph=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_gradient_reaches_the_scores_through_a_hard_choice(backend):
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    attend(q, k, v, align="hard", sample=True, seed=1, backend=backend).out.sum().backward()
    assert (q.grad is None or (q.grad == 0).all()) and (k.grad is None or (k.grad == 0).all())
    assert v.grad.sum() == 2 * 5 * 4


def test_without_sampling_the_best_key_is_taken():
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    index = attend(q, k, v, Dot(), "hard", backend="chunked").sample.index
    assert torch.equal(index.long(), (q @ k.transpose(-1, -2)).argmax(-1))


def test_without_a_seed_torchs_generator_governs_the_draw():
    q, k, v = (torch.zeros(1, 2, 50, 4) for _ in range(3))

    def draw(backend):
        return attend(q, k, v, align="hard", sample=True, backend=backend).sample.index

    torch.manual_seed(4)
    first, second = draw("reference"), draw("reference")
    torch.manual_seed(4)
    assert torch.equal(draw("chunked"), first) and not torch.equal(first, second)


@pytest.mark.parametrize("backend", [*BACKENDS])
def test_a_policy_draws_the_same_tokens_on_every_backend(backend):
    q, k, v = (torch.randn(2, 2, 6, 4) for _ in range(3))
    align = Reinforced(4)
    wanted = attend(q, k, v, align=align, sample=True, seed=2, backend="reference")
    found = attend(q, k, v, align=align, sample=True, seed=2, backend=backend)
    assert torch.equal(found.sample.index, wanted.sample.index)
    torch.testing.assert_close(found.out, wanted.out)
    chance = torch.sigmoid(align.logits(k, None))
    each = torch.distributions.Bernoulli(chance)
    torch.testing.assert_close(found.sample.log_prob, each.log_prob(found.sample.index.float()).sum(-1))
    torch.testing.assert_close(found.sample.entropy, each.entropy().sum(-1))


def test_a_policy_draws_a_token_as_often_as_it_says():
    k = torch.randn(1, 1, 7, 4)
    align = Reinforced(4)
    drawn = torch.stack(
        [attend(k, k, k, align=align, sample=True, seed=seed).sample.index[0, 0] for seed in range(600)]
    )
    chance = torch.sigmoid(align.logits(k, None))[0, 0].detach()
    off = (drawn.double().mean(0) - chance).abs() / (chance * (1 - chance) / 600).sqrt()
    assert off.max() < 4  # standard deviations


@pytest.mark.parametrize("backend", BACKENDS)
def test_entropy_and_log_probability_of_a_draw_have_the_gradients_of_a_softmax(backend):
    scores = torch.randn(1, 1, 6, 5, dtype=torch.float64, requires_grad=True)
    one = torch.eye(5, dtype=torch.float64)[None, None]
    drawn = attend(scores, one, one, Dot(), Hard(), sample=True, seed=3, backend=backend).sample
    log_p = torch.log_softmax(scores, -1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    chosen = log_p.gather(-1, drawn.index[..., None].long()).squeeze(-1)
    weigh = torch.randn(1, 1, 6, dtype=torch.float64)
    for mine, theirs in ((drawn.entropy, entropy), (drawn.log_prob, chosen)):
        found, wanted = (torch.autograd.grad((x * weigh).sum(), scores, retain_graph=True)[0] for x in (mine, theirs))
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(found, wanted)
