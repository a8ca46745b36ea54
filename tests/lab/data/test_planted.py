"""Planted tasks: what is said to be the truth is the truth."""

import numpy as np
import pytest
import torch

from regard.data import cipher, clutter, collate, csbm, far, motifs, retrieval, two_relations
from regard.lab.data.planted.clutter import PATCH, SIDE
from regard.lab.data.planted.retrieval import most_frequent


def test_the_answer_stands_beside_the_key_that_is_asked_for():
    task = retrieval(pairs=5, keys=9, values=4, train=50, val=10, test=10)
    for one in task.train:
        place = int(one.gold.argmax())
        assert one.gold.sum() == 1
        assert one.inputs[place].tolist() == [int(one.second[0]), int(one.target)]
        assert len(set(one.inputs[:, 0].tolist())) == 5


def test_without_the_question_the_most_frequent_value_is_the_best_answer():
    """Against all ways of guessing from the multiset: no rule of the table alone is right more often."""
    task = retrieval(pairs=3, keys=4, values=2, train=3000, val=1, test=1)
    expected = most_frequent(task.train, 2)
    # with 3 pairs of 2 values the larger count is 3 (chance 1/4, always right) or 2 (3/4, right in 2 of 3)
    assert abs(expected - (1 / 4 + 3 / 4 * 2 / 3)) < 0.03


@pytest.mark.parametrize("order", ["same", "reversed", "phrases"])
def test_the_gold_alignment_leads_from_each_word_to_its_one_translation(order):
    task = cipher(words=12, train=40, val=5, test=5, order=order, seed=3)
    lexicon: dict[str, set[str]] = {}
    for one in task.train:
        assert one.gold.sum(1).tolist() == [1.0] * (len(one.target) - 1) + [0.0]
        assert (one.gold.sum(0) >= 1).all()
        for row, word in enumerate(task.target_words.decode(one.target)):
            source = task.words.words[int(one.inputs[int(one.gold[row].argmax())])]
            lexicon.setdefault(source, set()).add(word)
    assert all(len(found) <= 2 for found in lexicon.values())
    given = [word for found in lexicon.values() for word in found]
    assert len(given) == len(set(given))  # no target word has two sources


def test_orders_of_a_cipher_are_what_they_are_called():
    for order, wanted in (("same", lambda x: x), ("reversed", lambda x: x[::-1])):
        for one in cipher(words=12, train=10, val=1, test=1, order=order, doubled=0.0).train:
            assert one.gold[:-1].argmax(1).tolist() == wanted(list(range(one.length)))


def test_the_box_holds_the_digit_and_gold_is_its_share_of_each_patch():
    pytest.importorskip("sklearn")
    task = clutter(canvas=32, bits=3, train=20, val=5, test=5)
    for one in task.train:
        assert one.gold.sum() == (SIDE // PATCH) ** 2  # the whole box, in patches
        grid = one.gold.reshape(8, 8)
        assert int((grid > 0).sum()) in (4, 6, 9)
        inside = one.inputs[0].unfold(0, PATCH, PATCH).unfold(1, PATCH, PATCH).sum((-1, -2))[grid > 0]
        assert inside.sum() > 0


def test_digits_to_judge_on_are_never_learned_from():
    pytest.importorskip("sklearn")
    task = clutter(canvas=16, bits=0, train=300, val=50, test=50, seed=1)

    def digits(part):
        found = set()
        for one in part:
            page = one.inputs[0].numpy()
            rows, columns = np.flatnonzero(page.any(1)), np.flatnonzero(page.any(0))
            found.add(page[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].tobytes())
        return found

    assert not digits(task.train) & digits(task.test)


def test_a_motif_is_what_its_class_says():
    for one in motifs(nodes=8, train=20, val=1, test=1).train:
        kept = one.gold[one.edges[0]] * one.gold[one.edges[1]] > 0
        degrees = torch.bincount(one.edges[1][kept], minlength=one.length)[one.gold > 0]
        assert sorted(degrees.tolist()) == [2, 2, 2, 3, 3]
        whole = torch.bincount(one.edges[1][kept], minlength=one.length)
        ends = whole[one.edges[:, kept]]
        assert bool(((ends == 3).all(0)).any()) == (int(one.target) == 0)  # a house's two thick corners are neighbours
        chain = one.length - 5
        assert 4 <= chain <= 8 and one.edges.shape[1] == 2 * (chain - 1 + 6 + 1)  # chain, motif, bridge
        assert (one.inputs.argmax(1) == torch.bincount(one.edges[1], minlength=one.length).clamp_max(4)).all()


def test_one_relation_tells_and_the_other_does_not():
    task, relation = two_relations(nodes=500, classes=4, agree=0.9)
    same = task.y[task.edge_index[0]] == task.y[task.edge_index[1]]
    assert same[relation == 0].float().mean() > 0.88
    assert abs(same[relation == 1].float().mean() - 0.25) < 0.03
    told = task.x.sum(1) > 0
    assert not (told & (task.val | task.test | task.train)).any()


@pytest.mark.parametrize("make", [retrieval, cipher, motifs])
def test_the_same_seed_plants_the_same_task(make):
    first, again, other = (make(train=5, val=2, test=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(collate(first.train).inputs, collate(again.train).inputs)
    assert [one.inputs.tolist() for one in first.train] != [one.inputs.tolist() for one in other.train]


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (retrieval, {"pairs": 9, "keys": 4}),
        (cipher, {"order": "odd"}),
        (clutter, {"canvas": 30}),
        (motifs, {"nodes": 1}),
    ],
)
def test_impossible_tasks_are_refused(make, wrong):
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match="expected"):
        make(**wrong)


def test_blocks_are_as_far_apart_and_as_joined_as_they_are_asked_to_be():
    task = csbm(600, signal=4.0, same=0.9, degree=12, seed=1)
    side = task.x @ (task.x[task.y == 1].mean(0) - task.x[task.y == 0].mean(0))
    assert float(((side > 0) == (task.y == 1)).float().mean()) > 0.99  # Phi(4) of them
    within = (task.y[task.edge_index[0]] == task.y[task.edge_index[1]]).float().mean()
    assert abs(float(within) - 0.9) < 0.03 and abs(task.edge_index.shape[1] / 600 - 12) < 1
    pairs = set(map(tuple, task.edge_index.T.tolist()))
    assert all((b, a) in pairs and a != b for a, b in pairs) and len(pairs) == task.edge_index.shape[1]
    assert [int(part.sum()) for part in (task.train, task.val, task.test)] == [300, 150, 150]
    blind = csbm(600, signal=0.0, seed=1)
    assert float((blind.x[blind.y == 1].mean(0) - blind.x[blind.y == 0].mean(0)).norm()) < 0.5
    assert torch.equal(csbm(50, seed=3).edge_index, csbm(50, seed=3).edge_index)
    with pytest.raises(ValueError, match="degree below half"):
        csbm(20, degree=10)


def test_what_is_asked_for_stands_so_many_edges_away():
    task = far(3, graphs=12, seed=2)
    asked, knows = (task.x[:, mark] == 1 for mark in (4, 5))
    assert torch.equal(task.train | task.val | task.test, asked) and int(asked.sum()) == 12
    assert torch.equal(task.y[asked], task.x[knows, :4].argmax(-1))
    reach = asked.clone()
    for step in range(3):
        assert not bool((reach & knows).any()), step
        reach[task.edge_index[1][reach[task.edge_index[0]]]] = True
    assert bool(reach[knows].all())
    with pytest.raises(ValueError, match="distance of 1 or more"):
        far(0)
