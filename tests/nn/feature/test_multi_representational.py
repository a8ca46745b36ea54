"""Attention over the embeddings of a token: the survey's score, DME, CDME, and words that a vocabulary lacks."""

import pytest
import torch
from tests.nn.unrolled import mixed, weights
from torch.testing import assert_close

from regard import Sigmoid
from regard.nn import MultiRepresentationalAttention

DIMS = [3, 2, 5]


def embeddings(batch=2, tokens=4):
    return [torch.randn(batch, tokens, width, dtype=torch.float64) for width in DIMS]


def score_of(made, t):
    score = made.choice.score
    hidden = score.key[0] @ t + score.bias[0]
    return score.w[0] @ (hidden if score.activation == "identity" else torch.tanh(hidden))


@pytest.mark.parametrize("score", ["query_free", "dme"])
def test_each_token_weighs_its_embeddings(score):
    made, given = MultiRepresentationalAttention(DIMS, 4, score=score).double(), embeddings()
    found = made(given)
    assert found.map.shape == (2, 4, 1, 1, 3)
    for item in range(2):
        for token in range(4):
            t = torch.stack([part(x[item, token]) for part, x in zip(made.project, given, strict=True)])
            assert_close(found.out[item, token], mixed(weights([score_of(made, one) for one in t]), t))


def test_dme_scores_are_linear_with_two_units():
    made = MultiRepresentationalAttention(DIMS, 4, score="dme")
    assert made.choice.score.key.shape == (1, 2, 4)
    assert made.choice.score.activation == "identity"


def test_cdme_runs_its_lstm_along_the_sentence_for_each_embedding():
    made, given = MultiRepresentationalAttention(DIMS, 4, score="cdme").double(), embeddings()
    present = torch.ones(2, 4, 3, dtype=torch.bool)
    present[1, 2:] = False  # the second sentence has two tokens
    found = made(given, present)
    for item, tokens in enumerate((4, 2)):
        t = [part(x[item, :tokens]) for part, x in zip(made.project, given, strict=True)]
        scores = [made.read(made.along(line[None])[0][0]).squeeze(-1) for line in t]
        for token in range(tokens):
            w = weights([line[token] for line in scores])
            assert_close(found.out[item, token], mixed(w, torch.stack([line[token] for line in t])))
    assert found.out[1, 2:].abs().max() == 0


@pytest.mark.parametrize("score", ["query_free", "dme", "cdme", "additive"])
def test_a_vocabulary_that_lacks_a_word_is_left_out(score):
    made, given = MultiRepresentationalAttention(DIMS, 4, score=score).double(), embeddings()
    present = torch.ones(2, 4, 3, dtype=torch.bool)
    present[0, 1, 2] = present[1, 3] = False
    found = made(given, present)
    given[2][0, 1] = 1e3 * torch.randn(5, dtype=torch.float64)
    for x in given:
        x[1, 3] = 1e3
    again = made(given, present)
    assert_close(again.out, found.out)
    assert found.map.weights()[0, 1, 0, 0, 2] == 0
    assert found.out[1, 3].abs().max() == 0


def test_weights_sum_to_one_over_embeddings_and_not_over_tokens():
    found = MultiRepresentationalAttention(DIMS, 4).double()(embeddings())
    assert_close(found.map.weights().sum(-1), torch.ones(2, 4, 1, 1, dtype=torch.float64))


def test_one_embedding_has_the_whole_weight():
    made, given = MultiRepresentationalAttention(DIMS[:1], 4).double(), embeddings()[:1]
    assert_close(made(given).out, made.project[0](given[0]))


def test_equal_embeddings_give_themselves_whatever_the_weights():
    made, x = MultiRepresentationalAttention([3, 3], 4).double(), embeddings()[0]
    made.project[1].load_state_dict(made.project[0].state_dict())
    assert_close(made([x, x]).out, made.project[0](x))


def test_gates_need_not_sum_to_one():
    made, given = MultiRepresentationalAttention(DIMS, 4, score="dme", align=Sigmoid(0.0)).double(), embeddings()
    t = torch.stack([part(x[0, 0]) for part, x in zip(made.project, given, strict=True)])
    gates = [torch.sigmoid(score_of(made, one)) for one in t]
    assert_close(made(given).out[0, 0], mixed(gates, t))


@pytest.mark.parametrize("score", ["query_free", "cdme"])
def test_gradients_are_those_of_finite_differences(score):
    made = MultiRepresentationalAttention(DIMS, 4, score=score).double()
    present = torch.ones(2, 4, 3, dtype=torch.bool)
    present[0, 1, 2] = present[1, 3] = False
    assert torch.autograd.gradcheck(lambda *x: made(x, present).out, [x.requires_grad_() for x in embeddings()])


def test_a_missing_embedding_is_told():
    with pytest.raises(ValueError, match="2 embeddings were given, expected 3"):
        MultiRepresentationalAttention(DIMS, 4)(embeddings()[:2])
