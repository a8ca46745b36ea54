"""Links and their error rate: by hand, by properties, and on alignments whose published figures are known."""

import math
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import AlignedPair, gold_alignments, reference_alignments
from regard.data.readers.pharaoh import read_links
from regard.judging.alignment.error_rate import (
    error_counts,
    error_rate,
    judge_alignment,
    judge_soft_alignment,
    precision,
    recall,
)
from regard.judging.alignment.word_links import (
    argmax_links,
    diagonal_links,
    grow_diagonal,
    intersection,
    links_from_weights,
    random_links,
    threshold_links,
    turned,
    union,
)

real = pytest.mark.skipif(
    not os.environ.get("REGARD_DATA"), reason="REGARD_DATA is not set: it names the folder of real data sets"
)
some_links = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def corpus(links, gold):
    return np.stack([error_counts(some, one.sure, one.possible) for some, one in zip(links, gold, strict=True)])


@real
def test_the_gold_set_has_the_links_that_it_should():
    gold = gold_alignments("enfr")
    assert (len(gold), sum(len(one.sure) for one in gold)) == (447, 4038)
    assert sum(len(one.possible) for one in gold) == 4038 + 13400
    assert [len(gold_alignments(name)) for name in ("jaen", "zhen")] == [582, 450]


@real
@pytest.mark.parametrize(
    ("aligner", "kind", "published", "exact"),
    [("giza", "", 8.0, 7.994), ("fastalign", "", 16.4, 16.388), ("giza", "grow-diagonal", 5.9, 5.939)],
    ids=["giza", "fastalign", "grow-diagonal"],
)
def test_the_error_rates_of_known_aligners_are_those_published(aligner, kind, published, exact):
    rate = 100 * error_rate(corpus(reference_alignments(aligner, kind), gold_alignments()))
    assert rate == pytest.approx(exact, abs=5e-4)
    assert round(rate, 1) == published


@real
@pytest.mark.parametrize("aligner", ["giza", "fastalign"])
def test_joined_directions_are_those_of_the_aligners_own_scripts(aligner):
    forward, backward = reference_alignments(aligner), reference_alignments(aligner, "reverse")
    for kind, join in (("intersection", intersection), ("union", union)):
        assert [join(*each) for each in zip(forward, backward, strict=True)] == reference_alignments(aligner, kind)
    grown = [grow_diagonal(*each) for each in zip(forward, backward, strict=True)]
    shipped = reference_alignments(aligner, "grow-diagonal")
    assert sum(a != b for a, b in zip(grown, shipped, strict=True)) <= 4  # the order of growing is not told there
    assert error_rate(corpus(grown, gold_alignments())) == pytest.approx(
        error_rate(corpus(shipped, gold_alignments())), abs=5e-4
    )


@real
def test_an_aligner_is_better_than_the_diagonal_and_that_than_chance():
    rate, _, _ = judge_alignment(reference_alignments("giza"), gold_alignments(), resamples=100)
    assert rate.against("diagonal") == "better" and rate.against("random") == "better"
    assert rate.interval[0] < rate.value < rate.interval[1]
    assert 50 < rate.baselines["diagonal"] < 60 and 85 < rate.baselines["random"] < 92


@given(some_links, some_links, some_links)
def test_the_error_rate_lies_between_none_and_all(links, sure, possible):
    rate = error_rate(error_counts(links, sure, possible)[None])
    assert math.isnan(rate) == (not links and not sure)
    if not math.isnan(rate):
        assert 0 <= rate <= 1
        assert (rate == 0) == (sure <= links <= sure | possible)


@given(some_links, some_links, st.sampled_from(["both", "either"]), st.booleans())
def test_growing_stays_between_intersection_and_union(forward, backward, free, final):
    grown = grow_diagonal(forward, backward, free, final)
    assert intersection(forward, backward) <= grown <= union(forward, backward)
    assert grow_diagonal(forward, forward, free, final) == forward


@given(some_links)
def test_turning_twice_changes_nothing(links):
    assert turned(turned(links)) == links


def test_links_of_two_directions_are_joined():
    forward = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1]])  # two targets, three sources
    backward = torch.tensor([[0.8, 0.2], [0.9, 0.1], [0.1, 0.9]])
    assert links_from_weights(forward) == {(0, 0), (1, 1)}
    assert links_from_weights(forward, backward) == {(0, 0)}
    assert links_from_weights(forward, backward, join="union") == {(0, 0), (1, 1), (1, 0), (2, 1)}
    assert links_from_weights(forward, threshold=0.2) == {(0, 0), (0, 1), (1, 1)}
    with pytest.raises(ValueError, match=r"expected \(sources, targets\)"):
        links_from_weights(forward, backward.T)
    with pytest.raises(ValueError, match="grow-diagonal"):
        links_from_weights(forward, join="both")


def test_the_diagonal_meets_both_ends_and_chance_meets_every_word():
    assert diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal_links(6, 3) == {(1, 0), (3, 1), (5, 2)}
    assert diagonal_links(1, 3) == {(0, 0), (0, 1), (0, 2)} and diagonal_links(0, 2) == frozenset()
    draw = np.random.default_rng(0)
    places = [s for _ in range(200) for s, _ in random_links(4, 5, draw)]
    assert np.bincount(places) == pytest.approx([250] * 4, abs=60)  # four deviations


PAIR = AlignedPair(("a", "b"), ("x", "y", "z"), frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (1, 2)}))


def test_findings_of_links_are_in_percent_with_baselines():
    rate, right, found = judge_alignment([{(0, 0), (1, 2)}] * 3, [PAIR] * 3)
    assert (rate.value, right.value, found.value) == pytest.approx((25.0, 100.0, 50.0))
    assert rate.interval is None and set(rate.baselines) == {"diagonal", "random"}  # three alike tell no spread
    assert rate == judge_alignment([{(0, 0), (1, 2)}] * 3, [PAIR] * 3)[0]


def test_soft_findings_of_hard_weights_are_those_of_their_links():
    weights = torch.tensor([[1.0, 0], [0, 0], [0, 1]])
    soft = [one.value for one in judge_soft_alignment([weights], [PAIR])]
    assert soft == pytest.approx([one.value for one in judge_alignment([argmax_links(weights)], [PAIR])])
    spread = judge_soft_alignment([torch.full((3, 2), 0.5)], [PAIR])[0]
    assert spread.value == pytest.approx(spread.baselines["uniform"])
    assert spread.interval is None  # one pair


def test_nothing_to_judge_is_undefined():
    empty = AlignedPair(("a",), ("x",), frozenset(), frozenset())
    for one in judge_alignment([set()], [empty]):
        assert one.value is None and one.says == "undefined: there is no link to judge."
    assert judge_alignment([], [])[0].value is None
    assert math.isnan(precision(np.zeros((1, 4)))) and math.isnan(recall(np.zeros((1, 4))))


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(ValueError, match=r"turned\(\)"):
        judge_alignment([{(2, 1)}], [PAIR])
    with pytest.raises(ValueError, match="gold has 1"):
        judge_alignment([], [PAIR])
    with pytest.raises(ValueError, match=r"\(3, 2\) = \(targets, sources\)"):
        judge_soft_alignment([torch.ones(2, 3)], [PAIR])
    with pytest.raises(ValueError, match="heads"):
        argmax_links(torch.ones(4, 2, 3))
    with pytest.raises(ValueError, match="more than 0"):
        threshold_links(torch.ones(2, 3), 0.0)
    with pytest.raises(ValueError, match="'both' or 'either'"):
        grow_diagonal(set(), set(), free="none")


def test_links_are_read_and_nonsense_is_not():
    assert read_links("1-2 3p1", first=1) == [((0, 1), "-"), ((2, 0), "p")]
    for line in ("0-1", "a-b", "1_2", "-1-2"):
        with pytest.raises(ValueError, match="is no link"):
            read_links(line, first=1)


def test_unknown_sets_are_refused():
    with pytest.raises(ValueError, match="enfr"):
        gold_alignments("defr")
