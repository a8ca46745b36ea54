"""Weights beside reading times: on a model whose weights are known."""

import pytest
import torch
from tests.judging.built_models import Bottleneck

from regard.judging import Adapter, Instance
from regard.judging.adapters.inputs import NotApplicable
from regard.judging.tests.reading_times import reading


def weights_of(tokens):
    adapter = Adapter(Bottleneck(), [Instance(torch.tensor(tokens))])
    return adapter.attention(adapter.inputs([0]))[0]


TEXT = [1, 25, 2, 3, 7, 4]


def judged(times, words=tuple("abcdef"), places=None):
    text = Instance(torch.tensor(TEXT), words=words, places=places, reading=torch.as_tensor(times))
    return {one.name: one for one in reading(Adapter(Bottleneck(), [text] * 3))}


def test_times_in_the_order_of_the_weights_agree_and_turned_round_they_do_not():
    weights = weights_of(TEXT)
    assert len(weights.unique()) > 2
    assert judged(weights)["rank correlation"].value == pytest.approx(1)
    assert judged(-weights + 1)["rank correlation"].value == pytest.approx(-1)


def test_pieces_of_a_word_are_added_up_before_they_are_compared():
    """Three words of two pieces."""
    places = torch.tensor([0, 0, 1, 1, 2, 2])
    by_word = weights_of(TEXT).view(3, 2).sum(-1)
    found = judged(by_word, ("a", "##bb", "c", "##d", "e", "##fff"), places)
    assert found["rank correlation"].value == pytest.approx(1)


def test_word_length_stands_beside_and_is_taken_out():
    """Reading times that are word lengths: the baseline agrees with them completely, and nothing is left."""
    words = ("a", "bbbb", "cc", "ddddd", "eee", "ffffff")
    found = judged([float(len(word)) for word in words], words)
    assert found["rank correlation"].baselines["word length"] == pytest.approx(1)
    assert found["rank correlation, word length known"].value is None


def test_texts_that_nobody_read_are_not_judged():
    with pytest.raises(NotApplicable, match="No instance has reading times"):
        reading(Adapter(Bottleneck(), [Instance(torch.tensor(TEXT))]))
