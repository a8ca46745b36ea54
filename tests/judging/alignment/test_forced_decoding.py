"""A translator's links under forced decoding, against an alignment that is known exactly."""

import pytest
import torch

from regard.data import cipher
from regard.judging.alignment.error_rate import judge_alignment
from regard.judging.alignment.forced_decoding import forced_weights
from regard.judging.alignment.word_links import argmax_links, diagonal_links
from regard.lab.tasks.translation.translation import Cipher
from regard.models.builders import translator


@pytest.mark.parametrize("order", ["parallel", "bahdanau"])
def test_the_error_rate_of_a_cipher_is_the_share_of_words_that_look_elsewhere(order):
    """Every target word comes from one source word, so that precision, recall and 1 - AER are all that share."""
    task = cipher(words=20, shortest=3, longest=9, train=2, val=2, test=70)  # two batches, lengths mixed
    torch.manual_seed(0)
    model = translator(len(task.words), len(task.target_words), dim=8, width=8, order=order)
    weights, gold = forced_weights(model, task.test)
    rate, right, found = judge_alignment([argmax_links(w) for w in weights], gold, resamples=1)
    truth = 100 * Cipher(small=True).measure(model, task, "cpu").numbers["truth"]
    assert 0 < truth < 100
    assert (100 - rate.value, right.value, found.value) == pytest.approx((truth, truth, truth), abs=1e-4)
    for w, one in zip(weights, task.test, strict=True):
        assert w.shape == (len(one.target) - 1, one.length)
        assert w.sum(-1) == pytest.approx(torch.ones(len(w)), abs=1e-5)


def test_a_cipher_in_the_same_order_without_doubled_words_lies_on_the_diagonal():
    task = cipher(words=20, order="same", doubled=0.0, train=2, val=2, test=9)
    model = translator(len(task.words), len(task.target_words), dim=8, width=8)
    _, gold = forced_weights(model, task.test)
    assert [diagonal_links(len(one.source), len(one.target)) for one in gold] == [one.sure for one in gold]
