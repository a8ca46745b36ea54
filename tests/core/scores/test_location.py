"""Scores that know where a key stands, or that ask nobody (taxonomy 2.1 i, j, l)."""

import pytest
import torch
from tests.core.mechanisms import built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Additive, Dot, LearnedQuery, LocationAware, Padding, QueryFree, attend


def test_location_scores_the_places_that_the_query_names_and_takes_the_first_m() -> None:
    q, k, v = inputs()
    score = built("location")
    s = torch.einsum("bhid,hjd->bhij", q, score.places)[..., :5]
    assert_close(attend(q, k, v, score).map.weights(), torch.softmax(s, -1))


def test_no_gradient_of_location_reaches_the_keys() -> None:
    q, k, v = inputs()
    found = torch.autograd.grad(attend(q, k, v, built("location")).out.square().sum(), [q, k, v], allow_unused=True)
    assert found[1] is None or (found[1] == 0).all()
    assert (found[0] != 0).any()


@pytest.mark.parametrize("name", ["query_free", "learned_query", "query_free_features"])
def test_query_free_scores_give_every_query_the_same_row_and_no_query_a_gradient(name: str) -> None:
    q, k, v = inputs()
    out, amap = attend(q, k, v, built(name))
    assert_close(amap.weights(), amap.weights()[..., :1, :].expand(amap.shape))
    found = torch.autograd.grad(out.square().sum(), q, allow_unused=True)[0]
    assert found is None or (found == 0).all()


def test_query_free_is_a_perceptron_on_the_key_alone() -> None:
    q, k, v = inputs()
    score = built("query_free")
    hidden = torch.tanh(torch.einsum("bhjd,hwd->bhjw", k, score.key) + score.bias[:, None])
    s = torch.einsum("bhjw,hw->bhj", hidden, score.w)
    assert_close(attend(q, k, v, score).map.weights()[:, :, 0], torch.softmax(s, -1))
    assert_close(QueryFree()(q, k)[:, :, 0], torch.tanh(k).sum(-1) / 2)


def test_source2token_weighs_each_feature_over_the_keys() -> None:
    q, k, v = inputs()
    score = built("query_free_features")
    hidden = torch.tanh(torch.einsum("bhjd,hwd->bhjw", k, score.key) + score.bias[:, None])
    weights = torch.softmax(torch.einsum("bhjw,hwf->bhfj", hidden, score.w), -1)
    assert_close(attend(q, k, v, score).out[:, :, 0], torch.einsum("bhfj,bhjf->bhf", weights, v))


def test_a_learned_query_equals_dot_asked_by_one_constant_row() -> None:
    q, k, v = inputs()
    score = built("learned_query")
    assert isinstance(score, LearnedQuery)
    constant = score.query[:, None].expand_as(q)
    assert_close(attend(q, k, v, score).out, attend(constant, k, v, Dot()).out)


def chorowski(score: LocationAware, q: Tensor, k: Tensor, length: int) -> Tensor:
    """Weights (n, m) of one item and head, written as in the paper: a convolution by hand, a step at a time."""
    filters, reach = score.conv.weight[:, 0], score.conv.kernel_size[0] // 2
    before = [1 / length] * length
    rows = []
    for t in range(q.shape[0]):
        s = []
        for j in range(length):
            seen = sum(
                filters[:, x + reach] * before[j + x] for x in range(-reach, reach + 1) if 0 <= j + x < length
            )  # the convolution of the last weights, as wide as the valid keys
            inner = score.query[0] @ q[t] + score.key[0] @ k[j] + score.place[0] @ seen + score.bias[0]
            s.append(score.w[0] @ torch.tanh(inner))
        before = torch.softmax(torch.stack(s), 0)
        rows.append(before)
    return torch.stack(rows)


def test_location_aware_attention_is_chorowskis_step_by_step() -> None:
    q, k, v = inputs(n=4)
    score = built("location_aware")
    with torch.no_grad():  # one set of parameters for both heads
        for p in (score.query, score.key, score.place, score.bias, score.w):
            p[1] = p[0]
    out, amap = attend(q, k, v, score, over=Padding(torch.tensor([5, 3])))
    for b, length in ((0, 5), (1, 3)):
        for h in range(2):
            w = chorowski(score, q[b, h], k[b, h], length)
            assert_close(amap.weights()[b, h, :, :length], w.detach())
            assert_close(out[b, h], w @ v[b, h, :length])


def test_attending_many_steps_at_once_equals_single_steps_that_hand_their_state_over() -> None:
    q, k, v = inputs(n=4)
    score = built("location_aware")
    whole = attend(q, k, v, score)
    state, rows = None, []
    for t in range(4):
        step = attend(q[:, :, t : t + 1], k, v, score, state=state)
        state = step.state
        rows.append(step.out)
    assert_close(torch.cat(rows, -2), whole.out)
    assert_close(state, whole.state)


@pytest.mark.parametrize("axes", [2, 3, 5])
def test_the_state_has_the_callers_axes_without_the_queries(axes: int) -> None:
    q, k, v = inputs(n=2, batch=6, heads=1 if axes == 2 else 2)
    score = LocationAware(4).double()
    q, k, v = ((x[0, 0], x[0], None, x.unflatten(0, (2, 3)))[axes - 2] for x in (q, k, v))
    first = attend(q[..., :1, :], k, v, score)
    assert first.state.shape == (*q.shape[:-2], 5)
    assert_close(attend(q[..., 1:, :], k, v, score, state=first.state).out, attend(q, k, v, score).out[..., 1:, :])


def test_without_a_place_matrix_location_aware_is_additive() -> None:
    q, k, v = inputs()
    score, additive = built("location_aware"), Additive(4, heads=2).double()
    with torch.no_grad():
        score.place.zero_()
        for ours, theirs in (("query", "query"), ("key", "key"), ("bias", "bias"), ("v", "w")):
            getattr(additive, ours).copy_(getattr(score, theirs))
    assert_close(attend(q, k, v, score).out, attend(q, k, v, additive).out)


def test_location_aware_attention_depends_on_the_order_of_the_keys() -> None:
    q, k, v = inputs()
    score, order = built("location_aware"), torch.tensor([3, 0, 4, 1, 2])
    moved = attend(q, k[:, :, order], v[:, :, order], score).out
    assert (moved - attend(q, k, v, score).out).abs().amax() > 1e-3
