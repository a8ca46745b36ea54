"""Planted sequences: what is asked follows from what stands before it."""

import pytest
import torch

from regard.lab.data.planted.sequences import TASKS, UNASKED, copying, induction, needle, recall


@pytest.mark.parametrize("name", TASKS)
def test_the_same_seed_draws_the_same_and_another_draws_anew(name):
    one, same, other = (TASKS[name](6, 32, seed) for seed in (1, 1, 2))
    assert torch.equal(one.tokens, same.tokens) and torch.equal(one.targets, same.targets)
    assert not torch.equal(one.tokens, other.tokens)
    assert one.tokens.max() < one.vocabulary and one.targets.max() < one.vocabulary
    assert ((one.targets != UNASKED).sum(-1) > 0).all()


def test_recall_asks_each_key_for_the_value_that_stood_behind_it():
    found = recall(8, 32, 0)
    for row, goal in zip(found.tokens.tolist(), found.targets.tolist(), strict=True):
        table = dict(zip(row[0:16:2], row[1:16:2], strict=True))
        assert len(table) == 8
        assert [goal[at] for at in range(16, 32, 2)] == [table[row[at]] for at in range(16, 32, 2)]
        assert {goal[at] for at in [*range(16), *range(17, 32, 2)]} == {UNASKED}


def test_induction_asks_for_what_followed_the_word_that_stands_nowhere_else():
    found = induction(8, 20, 0)
    for row, goal in zip(found.tokens.tolist(), found.targets.tolist(), strict=True):
        assert row.count(16) == 2 and row[-1] == 16
        assert goal[-1] == row[row.index(16) + 1] and set(goal[:-1]) == {UNASKED}


def test_copying_says_the_marked_words_in_their_order():
    found = copying(8, 24, 0)
    for row, goal in zip(found.tokens.tolist(), found.targets.tolist(), strict=True):
        words = [token for token in row[:24] if token < 16]
        assert len(words) == 8 and goal[24:] == words and row[25:] == words[:-1]


def test_a_needle_is_found_by_its_key_among_two():
    found = needle(16, 20, 0)
    for row, goal in zip(found.tokens.tolist(), found.targets.tolist(), strict=True):
        keys = [at for at, token in enumerate(row[:-1]) if token < 8]
        assert len(keys) == 2 and row[keys[0]] != row[keys[1]]
        asked = next(at for at in keys if row[at] == row[-1])
        assert goal[-1] == row[asked + 1]


def test_lengths_that_hold_nothing_are_refused():
    for make, length in ((recall, 3), (induction, 3), (copying, 4), (needle, 5), (recall, 400)):
        with pytest.raises(ValueError, match=r"length="):
            make(1, length, 0)
