"""Alignments that choose: top-k, hard, Gumbel (taxonomy 2.2 B, G)."""

import itertools
import math

import pytest
import torch
from tests.core.mechanisms import inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Edges, Gumbel, Hard, Mask, Padding, ScaledDot, Sink, TopK, attend


def one_hot(index: Tensor, m: int) -> Tensor:
    return torch.nn.functional.one_hot(index.long(), m).double()


def test_topk_is_softmax_over_the_k_best_keys_and_zero_elsewhere() -> None:
    q, k, v = inputs()
    s = q @ k.mT / 2
    weights = attend(q, k, v, align=TopK(2)).map.weights()
    for row, scores in zip(weights.flatten(0, 2), s.detach().flatten(0, 2), strict=True):
        best = sorted(range(5), key=lambda j: -scores[j].item())[:2]
        total = sum(math.exp(scores[j]) for j in best)
        assert_close(row.tolist(), [math.exp(scores[j]) / total if j in best else 0.0 for j in range(5)])


def test_topk_of_as_many_as_there_are_is_softmax() -> None:
    q, k, v = inputs()
    for many in (5, 9):
        assert_close(attend(q, k, v, align=TopK(many)).out, attend(q, k, v).out)


def test_a_tie_gives_topk_exactly_k_weights_and_the_map_the_same_ones() -> None:
    q, _, v = inputs()
    k = torch.ones(2, 2, 5, 4, dtype=torch.float64)
    for backend in ("reference", "chunked"):
        out, amap = attend(q, k, v, align=TopK(2), backend=backend)
        weights = amap.weights()
        assert ((weights > 0).sum(-1) == 2).all()
        assert_close(out, weights @ v)
        assert_close(torch.stack([amap.column(j) for j in range(5)], -1), weights)


def test_hard_attention_looks_at_the_best_key_and_returns_its_value() -> None:
    q, k, v = inputs()
    made = attend(q, k, v, align="hard")
    best = (q @ k.mT).argmax(-1)
    assert_close(made.map.weights(), one_hot(best, 5))
    assert_close(made.out, v.gather(2, best[..., None].expand(-1, -1, -1, 4)))
    assert_close(made.sample.index.long(), best)


def test_a_draw_carries_no_gradient_to_the_scores() -> None:
    q, k, v = inputs()
    out = attend(q, k, v, align="hard", sample=True, seed=0).out
    found = torch.autograd.grad(out.square().sum(), [q, k, v], allow_unused=True)
    assert all(x is None or (x == 0).all() for x in found[:2])
    assert (found[2] != 0).any()


def test_the_sample_has_the_log_probability_of_its_key_and_the_entropy_of_the_row() -> None:
    q, k, v = inputs()
    sample = attend(q, k, v, align="hard", sample=True, seed=3).sample
    log_p = torch.log_softmax(q @ k.mT / 2, -1)
    assert_close(sample.log_prob, log_p.gather(-1, sample.index.long()[..., None])[..., 0])
    assert_close(sample.entropy, -(log_p.exp() * log_p).sum(-1))


def test_hard_draws_are_distributed_as_softmax_and_their_mean_output_is_the_soft_context() -> None:
    q, k, v = (x[:1, :1, :1].detach() if i == 0 else x[:1, :1].detach() for i, x in enumerate(inputs()))
    draws = 20_000
    many = q.expand(1, 1, draws, 4)
    out, amap = attend(many, k, v, align="hard", sample=True, seed=7)
    soft = attend(q, k, v)
    p = soft.map.weights()[0, 0, 0]
    share = amap.mass()[0, 0] / draws
    assert (share - p).abs().amax() < 4 * (0.25 / draws) ** 0.5
    assert (out.mean(2) - soft.out[:, :, 0]).abs().amax() < 5 * v.std().item() / draws**0.5


@pytest.mark.parametrize("baseline", [0.0, 1.7, -5.0])
def test_the_score_function_gradient_equals_the_exact_gradient_for_any_baseline(baseline: float) -> None:
    """Every joint draw of two rows over three keys, weighed by its probability."""
    q, k, v = (x[:1, :1].detach().requires_grad_() for x in inputs(n=2, m=3))
    target = torch.tensor([0.3, -0.2, 0.5, 0.1], dtype=torch.float64)

    def loss_of(out: Tensor) -> Tensor:
        return (out - target).square().sum((-1, -2, -3)) + out[..., 0, 0].squeeze() * out[..., 1, 1].squeeze()

    p = torch.softmax(q @ k.mT / 2, -1)[0, 0]
    exact, estimate = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    seen: dict[tuple[int, ...], float] = {}
    for seed in range(1000):  # until all nine draws were met
        made = attend(q, k, v, align="hard", sample=True, seed=seed)
        drawn = tuple(made.sample.index[0, 0].tolist())
        if drawn in seen:
            continue
        chance = p[0, drawn[0]] * p[1, drawn[1]]
        loss = loss_of(made.out)
        whole = made.sample  # one loss for both rows: their log-probabilities add up
        whole.log_prob, whole.entropy = whole.log_prob.sum(), whole.entropy.sum()
        exact = exact + chance * loss
        estimate = estimate + chance.detach() * whole.surrogate(loss, baseline=baseline)
        seen[drawn] = chance.item()
        if len(seen) == 9:
            break
    assert sorted(seen) == sorted(itertools.product(range(3), repeat=2))
    for tensor in (q, k, v):
        assert_close(
            torch.autograd.grad(estimate, tensor, retain_graph=True),
            torch.autograd.grad(exact, tensor, retain_graph=True),
        )


def test_the_surrogate_adds_reward_and_entropy_as_the_paper_does() -> None:
    q, k, v = inputs()
    made = attend(q, k, v, align="hard", sample=True, seed=0)
    loss = made.out.square().mean(-1)
    found = made.sample.surrogate(loss, baseline=0.4, reward_scale=0.1, entropy_weight=0.002)
    expected = loss + 0.1 * (loss - 0.4).detach() * made.sample.log_prob - 0.002 * made.sample.entropy
    assert_close(found, expected)


@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_the_map_of_a_draw_shows_the_key_that_was_drawn(backend: str) -> None:
    q, k, v = inputs(n=20)
    made = attend(q, k, v, align="hard", sample=True, seed=11, backend=backend)
    assert_close(made.map.weights(), one_hot(made.sample.index, 5))
    assert_close(made.map.tile([3, 7], [1, 4]), made.map.weights()[..., [3, 7], :][..., [1, 4]])
    assert_close(made.out, made.map.weights() @ v)


def test_a_draw_over_nothing_has_no_index_no_log_probability_and_no_output() -> None:
    q, k, v = inputs()
    made = attend(q, k, v, align="hard", sample=True, seed=0, over=Padding(torch.tensor([5, 0])))
    assert (made.out[1] == 0).all()
    assert (made.sample.index[1] == -1).all()
    assert (made.sample.log_prob[1] == 0).all()
    assert (made.sample.entropy[1] == 0).all()


def test_on_a_graph_the_index_names_the_edge() -> None:
    q, k, v = inputs(n=3, m=3)
    edges = torch.tensor([[2, 0, 1, 2], [0, 1, 1, 1]])
    made = attend(q, k, v, align="hard", over=Edges(edges))
    assert (made.sample.index[..., 2] == -1).all()
    picked = made.sample.index[..., 1].long()
    assert (made.map.edges().gather(-1, picked[..., None]) == 1).all()
    assert_close(made.out[:, :, 1], v.gather(2, edges[0][picked][..., None, None].expand(-1, -1, 1, 4))[:, :, 0])


def test_the_same_seed_draws_the_same_keys_and_another_seed_others() -> None:
    q, k, v = inputs(n=50)
    first, again, other = (attend(q, k, v, align="hard", sample=True, seed=s).sample.index for s in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    torch.manual_seed(5)
    free = attend(q, k, v, align="hard", sample=True).sample.index
    torch.manual_seed(5)
    assert (attend(q, k, v, align="hard", sample=True).sample.index == free).all()


def test_gumbel_without_sampling_is_softmax_at_its_temperature() -> None:
    q, k, v = inputs()
    weights = attend(q, k, v, align=Gumbel(0.5)).map.weights()
    assert_close(weights, torch.softmax(q @ k.mT / 2 / 0.5, -1).detach())
    assert_close(attend(q, k, v, align="gumbel").out, attend(q, k, v).out)


def test_the_largest_of_score_plus_gumbel_noise_is_distributed_as_softmax() -> None:
    q, k, v = (x[:1, :1].detach() for x in inputs(n=1))
    draws = 20_000
    amap = attend(q.expand(1, 1, draws, 4), k, v, align=Gumbel(0.3), sample=True, seed=1).map
    share = one_hot(amap.weights().argmax(-1), 5).mean(2)[0, 0]
    assert (share - attend(q, k, v).map.weights()[0, 0, 0]).abs().amax() < 4 * (0.25 / draws) ** 0.5
    assert_close(amap.weights().sum(-1), torch.ones(1, 1, draws, dtype=torch.float64))


def test_straight_through_is_one_hot_forward_and_soft_backward() -> None:
    q, k, v = inputs()
    soft, straight = Gumbel(0.5), Gumbel(0.5, straight_through=True)
    for sample in (False, True):
        out, amap = attend(q, k, v, align=straight, sample=sample, seed=4)
        weights = amap.weights()
        assert_close(weights, one_hot(weights.argmax(-1), 5))
        assert_close(out, weights @ v)
        found = torch.autograd.grad(out.square().sum(), [q, k])
        upstream = 2 * out.detach()
        expected = torch.autograd.grad(attend(q, k, v, align=soft, sample=sample, seed=4).out, [q, k], upstream)
        assert_close(found, expected)
        assert (found[0] != 0).any()


def test_without_sampling_straight_through_takes_the_key_that_hard_takes() -> None:
    q, k, v = inputs()
    assert_close(attend(q, k, v, align=Gumbel(straight_through=True)).out, attend(q, k, v, align=Hard()).out)


@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_a_row_without_keys_draws_nothing_though_it_has_a_sink(backend):
    q, k = torch.randn(1, 2, 1, 4), torch.randn(1, 2, 3, 4)
    closed = Mask(keep=torch.zeros(1, 3, dtype=torch.bool))
    drawn = attend(q, k, k, ScaledDot() | Sink(2), "hard", closed, backend=backend, sample=True, seed=1).sample
    assert (drawn.index == -1).all() and not drawn.log_prob.any() and not drawn.entropy.any()
