"""Losses about attention itself, against loops and against the exact expectation."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from regard import Hard, Padding, attend
from regard.core.attend import Sample
from regard.data import Example, collate
from regard.models import Answer, builders
from regard.models.training.attention_losses import score_function_loss, supervised
from regard.models.training.objectives import Classification, Sequences


def test_supervised_attention_is_its_formula():
    weights = torch.rand(2, 3, 4, 5, dtype=torch.float64).softmax(-1)
    gold = torch.randint(0, 3, (2, 4, 5)).double()
    gold[0, 1] = 0.0
    for form in ("squared", "cross_entropy"):
        found = supervised(weights, gold, form)
        for b in range(2):
            total = 0.0
            for h, i in itertools.product(range(3), range(4)):
                if gold[b, i].sum() == 0:
                    continue
                g, w = gold[b, i] / gold[b, i].sum(), weights[b, h, i]
                total += float(((w - g) ** 2).sum() if form == "squared" else -(g * w.log()).sum()) / 3
            assert_close(float(found[b]), total)


def test_supervision_is_least_where_attention_is_gold():
    gold = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    assert supervised(gold[:, None, None], gold, "squared").item() == 0.0
    scores = gold.clamp_min(1e-9).log()[:, None, None].requires_grad_()
    supervised(scores.softmax(-1), gold).sum().backward()
    assert_close(scores.grad, torch.zeros_like(scores), atol=1e-6, rtol=0)


def test_supervision_teaches_any_map_where_to_look():
    model = builders.retriever(5, 4, "additive", dim=8)
    task = [
        Example(
            torch.stack([torch.randperm(5)[:3], torch.randint(4, (3,))], 1),
            torch.tensor(0),
            torch.tensor([0.0, 1.0, 0.0]),
            second=torch.tensor([i % 5]),
        )
        for i in range(20)
    ]
    batch, objective = collate(task), Classification(supervise=5.0)
    optimiser = torch.optim.Adam(model.parameters(), 0.05)
    before = float((model(batch).weights()[:, 0, 0] * batch.gold).sum(1).mean())
    for _ in range(60):
        optimiser.zero_grad()
        objective(model(batch), batch).backward()
        optimiser.step()
    assert float((model(batch).weights()[:, 0, 0] * batch.gold).sum(1).mean()) > max(0.6, before)


def test_gold_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="gold is"):
        supervised(torch.ones(2, 1, 3, 4), torch.ones(2, 4))


def exact_gradient(logits, losses):
    """Of the expected loss of one draw, by going through all of them."""
    logits = logits.detach().requires_grad_()
    (logits.softmax(-1) * losses).sum().backward()
    return logits.grad


@pytest.mark.parametrize("usual", [0.0, 3.0])
def test_the_expected_reward_gradient_is_that_of_the_expected_loss(usual):
    """Weighted by its probability over all draws; any baseline gives the same."""
    logits = torch.randn(4, dtype=torch.float64)
    losses = torch.tensor([1.0, 5.0, 2.0, 0.5], dtype=torch.float64)
    total = torch.zeros(4, dtype=torch.float64)
    for draw in range(4):
        leaf = logits.clone().requires_grad_()
        log_p = leaf.log_softmax(-1)
        sample = Sample(torch.tensor([[[draw]]]), log_p[draw].reshape(1, 1, 1), torch.zeros(1, 1, 1))
        score_function_loss(
            losses[draw].reshape(1, 1), [sample], torch.ones(1, 1, dtype=torch.bool), usual
        ).sum().backward()
        total += log_p[draw].exp().detach() * leaf.grad
    assert_close(total, exact_gradient(logits, losses))


def test_a_draw_is_rewarded_for_what_came_after_it_and_not_before():
    log_p = torch.zeros(1, 1, 3, requires_grad=True)
    sample = Sample(torch.zeros(1, 1, 3), log_p, torch.zeros(1, 1, 3))
    losses, real = torch.tensor([[1.0, 10.0, 100.0]]), torch.tensor([[True, True, True]])
    score_function_loss(losses, [sample], real).sum().backward()
    assert log_p.grad.tolist() == [[[111.0, 110.0, 100.0]]]
    log_p.grad = None
    score_function_loss(losses, [sample], real, baseline=1.0, fed=False).sum().backward()
    assert log_p.grad.tolist() == [[[0.0, 9.0, 99.0]]]


def test_draws_in_padding_are_not_rewarded():
    log_p = torch.zeros(1, 1, 3, requires_grad=True)
    sample = Sample(torch.zeros(1, 1, 3), log_p, torch.zeros(1, 1, 3))
    real = torch.tensor([[True, True, False]])
    score_function_loss(torch.tensor([[1.0, 2.0, 0.0]]), [sample], real, baseline=0.5).sum().backward()
    assert log_p.grad.tolist() == [[[2.0, 1.5, 0.0]]]


def test_hard_attention_learns_where_to_look_from_its_reward_alone():
    """Values have no way back to the scores but the log-probability: the question must find the key that pays."""
    keys = torch.eye(4)[None, None]
    query = torch.zeros(1, 1, 1, 4, requires_grad=True)
    optimiser = torch.optim.Adam([query], 0.1)
    for step in range(200):
        ran = attend(
            query.expand(32, -1, -1, -1),
            keys.expand(32, -1, -1, -1),
            keys.expand(32, -1, -1, -1),
            "dot",
            Hard(),
            Padding(torch.full((32,), 4)),
            sample=True,
            seed=step,
        )
        losses = 1.0 - ran.out[:, 0, :, 2]  # 0 where key 2 was looked at
        optimiser.zero_grad()
        score_function_loss(losses, [ran.sample], torch.ones_like(losses, dtype=torch.bool), 0.5).mean().backward()
        optimiser.step()
    assert int(query.argmax()) == 2 and query.softmax(-1).max() > 0.8


@pytest.mark.parametrize("attention", ["hard", "reinforced"])
def test_drawn_attention_adds_its_gradient_and_leaves_the_loss_as_it_is(attention):
    model = builders.translator(9, 9, attention, 8, 8, dropout=0.0).train()
    batch = collate(
        [Example(torch.tensor([4, 5, 6]), torch.tensor([5, 6, 3])), Example(torch.tensor([7, 8]), torch.tensor([4, 3]))]
    )
    objective = Sequences()
    answer = model(batch)
    loss = objective(answer, batch)
    assert_close(loss, objective.rows(answer, batch)[0].sum())
    loss.backward()
    part = model.attention.score.key if attention == "hard" else model.attention.align.hidden.weight
    assert part.grad is not None and part.grad.abs().sum() > 0
    assert torch.isfinite(objective.usual)


def test_what_does_without_attention_learns_its_task_and_is_not_taught_where_to_look():
    batch = collate([Example(torch.tensor([1, 2]), torch.tensor(0), gold=torch.tensor([[1.0, 0.0]]))])
    answer = Answer(torch.tensor([[0.3, 0.7]]))
    assert Classification(supervise=5.0)(answer, batch) == Classification()(answer, batch)
