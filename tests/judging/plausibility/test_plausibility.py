"""Weights beside marks and fixations of people: boxes, documents, pictures, and where a measure is undefined."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from regard.judging.plausibility.correctness import attention_correctness, box_marks, chance, judge_correctness
from regard.judging.plausibility.fixations import (
    auc_judd,
    centre_bias,
    count_map,
    divergence,
    fixation_map,
    human_ceiling,
    judge_fixations,
    nss,
    rank_correlation,
)
from regard.judging.plausibility.overlap import (
    auprc,
    judge_overlap,
    macro_span_f1,
    span_counts,
    spans,
    token_counts,
    top_marks,
)

positive = arrays(float, 9, elements=st.floats(0.01, 1))
looked_at = arrays(int, 9, elements=st.integers(0, 2)).filter(lambda x: 0 < (x > 0).sum() < 9)


def test_a_patch_is_marked_by_the_share_of_it_in_a_box():
    marks = box_marks([(0, 0, 15, 10)], grid=(2, 2), size=(20, 20))
    assert marks == pytest.approx(np.array([[1.0, 0.5], [0.0, 0.0]]))
    both = box_marks([(0, 0, 15, 10), (5, 0, 15, 10)], grid=(2, 2), size=(20, 20))
    assert both == pytest.approx(marks)  # boxes that overlap are counted once
    assert box_marks([(-5, -5, 99, 99)], (3, 4), (20, 20)) == pytest.approx(np.ones((3, 4)))
    assert not box_marks([], (3, 4), (20, 20)).any()


@given(st.lists(st.tuples(*[st.integers(0, 12)] * 4), max_size=3), st.integers(1, 5), st.integers(1, 5))
def test_marks_of_boxes_are_those_of_pixels(corners, rows, columns):
    boxes = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners]
    fine = np.zeros((12 * rows, 12 * columns))  # one cell a pixel, each cut so that patches have whole cells
    for left, top, right, bottom in boxes:
        fine[top * rows : bottom * rows, left * columns : right * columns] = 1
    patches = fine.reshape(rows, 12, columns, 12).mean((1, 3))
    assert box_marks(boxes, (rows, columns), (12, 12)) == pytest.approx(patches)


def test_equal_weights_are_as_right_as_chance():
    marks = [np.array([1, 0, 0, 1]), np.array([0, 0, 1]), np.zeros(5)]
    (found,) = judge_correctness([np.full(len(m), 1 / len(m)) for m in marks], marks)
    assert found.value == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert found.value == pytest.approx(found.baselines["chance"])
    assert (found.n, found.undefined) == (2, 1)  # nothing was marked in the third
    assert judge_correctness([[1.0]], [[0]])[0].value is None
    assert math.isnan(chance([]))


def test_weights_on_the_marks_beat_random_ones_in_every_measure():
    draw = np.random.default_rng(0)
    marks = [draw.random(40) < 0.25 for _ in range(30)]
    found = judge_overlap([m + 0.1 * draw.random(40) for m in marks], marks)
    names = ["average precision", "token F1", "token F1, micro", "IOU-F1", "AUPRC (ERASER)"]
    assert [one.name for one in found] == names
    for one in found:
        assert one.against("random") == "better"
    assert found[0].value == found[-1].value == 1.0
    assert found[0].baselines["random"] == pytest.approx(0.25, abs=0.1)


def test_marks_at_the_end_are_foretold_by_position_alone():
    found = judge_overlap([np.ones(20)] * 3, [np.arange(20) >= 15] * 3, resamples=1)
    for one in found:
        assert one.baselines["last words"] == pytest.approx(1.0) and one.baselines["first words"] < 0.2


def test_token_f1_is_that_of_scikit_learn():
    from sklearn.metrics import f1_score

    draw = np.random.default_rng(1)
    weights, marks = draw.random((6, 25)), draw.random((6, 25)) < 0.3
    found = {one.name: one.value for one in judge_overlap(weights, marks, share=0.2, resamples=1)}
    said = np.array([top_marks(w, 0.2) for w in weights])
    assert found["token F1"] == pytest.approx(np.mean([f1_score(g, s) for g, s in zip(marks, said, strict=True)]))
    assert found["token F1, micro"] == pytest.approx(f1_score(marks.ravel(), said.ravel()))


def test_passages_score_by_mean_precision_and_mean_recall():
    counts = np.array([span_counts([(0, 4)], [(0, 4), (8, 9)]), span_counts([(1, 2), (5, 6)], [(1, 2)])])
    assert macro_span_f1(counts) == pytest.approx(0.75)  # precision (1 + 1/2) / 2, recall (1/2 + 1) / 2
    assert macro_span_f1(np.array([span_counts([], [])])) == 0.0
    assert math.isnan(macro_span_f1(np.zeros((0, 4))))


def test_documents_without_marks_are_left_out_and_counted():
    found = judge_overlap([[0.5, 0.5], [0.9, 0.1]], [[0, 0], [1, 0]], resamples=10)
    assert {(one.n, one.undefined, one.interval) for one in found} == {(1, 1, None)}
    assert {one.value for one in judge_overlap([[0.5, 0.5]], [[0, 0]])} == {None}
    everything = judge_overlap([[0.5, 0.5]] * 2, [[1, 1]] * 2, resamples=10)
    assert everything[0].value is None and everything[1].value == 1.0  # no curve where every token is marked


@given(positive, positive)
def test_divergence_is_never_negative_and_zero_for_the_same(w, h):
    assert divergence(w, h) >= -1e-12
    assert divergence(3 * h, h) == pytest.approx(0, abs=1e-12)


@given(positive, looked_at)
def test_judds_area_lies_at_most_half_a_step_above_the_whole_curve(w, f):
    from scipy.stats import rankdata
    from sklearn.metrics import roc_auc_score

    gap = auc_judd(w, f) - roc_auc_score(f > 0, w)
    assert -1e-12 <= gap <= 1 / 2 + 1e-12
    assert auc_judd(w, f) == pytest.approx(auc_judd(rankdata(w), f))  # only the order of weights counts


@given(arrays(int, 9, elements=st.integers(0, 3)), looked_at)
def test_the_area_of_eraser_is_that_of_scikit_learn_whatever_the_ties(w, f):
    from sklearn.metrics import auc, precision_recall_curve

    precision, recall, _ = precision_recall_curve(f > 0, w)
    assert auprc(w, f > 0) == pytest.approx(auc(recall, precision))


@given(positive, looked_at)
def test_scaling_a_map_changes_no_standardised_score(w, f):
    if np.ptp(w) > 1e-3:
        assert nss(3 * w + 7, f) == pytest.approx(nss(w, f), abs=1e-9)


def test_fixations_become_maps():
    counts = count_map([(0, 0), (1.9, 2.2), (1, 2)], (3, 4))
    assert counts[0, 0] == 1 and counts[1, 2] == 2 and counts.sum() == 3
    blurred = fixation_map([(1, 2)], (9, 9), 1.5)
    assert blurred.sum() == pytest.approx(1) and np.unravel_index(blurred.argmax(), (9, 9)) == (1, 2)
    assert not fixation_map(np.zeros((0, 2)), (3, 3), 1.0).any()
    with pytest.raises(ValueError, match="outside"):
        count_map([(3, 0)], (3, 4))


def test_the_centre_is_where_the_bias_is():
    bias = centre_bias((4, 6))
    assert bias.sum() == pytest.approx(1)
    assert bias == pytest.approx(bias[::-1]) and bias == pytest.approx(bias[:, ::-1])
    assert bias[1, 2] == bias.max() and bias[0, 0] == bias.min()


def test_people_who_agree_have_a_high_ceiling():
    draw = np.random.default_rng(2)
    scene = draw.random(60)
    alike = [scene + 0.1 * draw.random(60) for _ in range(5)]
    apart = [draw.random(60) for _ in range(5)]
    assert human_ceiling(alike, rank_correlation) > 0.9 > 0.3 > human_ceiling(apart, rank_correlation)
    doubled = human_ceiling(alike, rank_correlation, predict=lambda total: 2 * total)
    assert doubled == pytest.approx(human_ceiling(alike, rank_correlation))
    assert math.isnan(human_ceiling([], rank_correlation))


def test_findings_name_their_baselines_and_the_ceiling():
    human = [[1, 2, 3, 4], [2, 2, 1, 5], [1, 1, 1, 1]]
    found = judge_fixations(
        human,
        human,
        ["rank correlation", "divergence from people"],
        baselines={"length": [[4, 3, 2, 1]] * 3},
        ceiling={"rank correlation": 0.62},
    )
    assert found[0].value == pytest.approx(1) and found[1].value == pytest.approx(0)
    assert (found[0].n, found[0].undefined) == (2, 1)  # the third reader looked everywhere alike
    assert found[0].baselines["people"] == 0.62 and found[0].baselines["length"] < 0
    assert "people" not in found[1].baselines


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: judge_fixations([[1, 2]], []),
        lambda: judge_fixations([], [], ["beauty"]),
        lambda: rank_correlation([1, 2], [1, 2, 3]),
        lambda: nss([math.nan, 1], [1, 0]),
        lambda: divergence([-1, 2], [1, 1]),
        lambda: judge_overlap([[1.0]], []),
        lambda: token_counts([1], [1, 0]),
        lambda: span_counts([], [], 0.0),
        lambda: top_marks([1.0], 0),
        lambda: judge_correctness([[1.0]], []),
        lambda: attention_correctness([1.0], [1, 0]),
        lambda: attention_correctness([1.0], [2]),
        lambda: box_marks([(3, 0, 1, 1)], (2, 2), (4, 4)),
        lambda: box_marks([], (0, 2), (4, 4)),
    ],
    ids=[
        "fewer",
        "measure",
        "shape",
        "nan",
        "negative",
        "documents",
        "tokens",
        "threshold",
        "share",
        "instances",
        "marks",
        "mark",
        "box",
        "grid",
    ],
)
def test_what_cannot_be_compared_is_refused(wrong):
    with pytest.raises(ValueError, match=r"expected|must|but"):
        wrong()


def test_spans_and_marks_are_the_same_thing():
    marks = np.random.default_rng(3).random(50) < 0.5
    again = np.zeros(50, dtype=bool)
    for a, b in spans(marks):
        again[a:b] = True
    assert (again == marks).all()
