"""What is true of each metric, by hand; and each metric broken on purpose breaks one of these truths."""

import math

import numpy as np
import pytest
import torch
from pytest import approx
from tests.judging.built_models import Bag

from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.inputs import Instance
from regard.judging.alignment.error_rate import error_counts, error_rate, soft_counts
from regard.judging.alignment.word_links import argmax_links, grow_diagonal, turned, union
from regard.judging.attribution.gradients import gradient_times_input
from regard.judging.attribution.importance import uniform
from regard.judging.plausibility.correctness import attention_correctness
from regard.judging.plausibility.fixations import auc_judd, divergence, human_ceiling, nss, rank_correlation
from regard.judging.plausibility.overlap import (
    auprc,
    average_precision,
    macro_f1,
    micro_f1,
    span_counts,
    spans,
    top_marks,
)
from regard.judging.statistics.intervals import Estimate, estimate
from regard.judging.task_metrics import extrinsic
from regard.judging.tests.agreement import taus_of
from regard.judging.tests.faithfulness import erased
from regard.judging.tests.infidelity import unexplained, unpredicted

for module in ("sklearn", "scipy", "sacrebleu", "jiwer", "nltk"):
    pytest.importorskip(module)

SURE, POSSIBLE = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2)}


def aer(links, sure, possible):
    return error_rate(error_counts(links, sure, possible)[None])


def aer_truths(aer):
    assert aer({(0, 0), (1, 2), (2, 2)}, SURE, POSSIBLE) == approx(1 - (1 + 2) / (3 + 2))
    assert aer(SURE, SURE, POSSIBLE) == 0 and aer(POSSIBLE, SURE, POSSIBLE) == 0
    assert aer({(2, 2)}, SURE, POSSIBLE) == 1
    assert aer(SURE, SURE, set()) == 0  # sure links are possible
    assert math.isnan(aer(set(), set(), POSSIBLE))


def soft_truths(soft):
    rows = np.array([[1.0, 0, 0], [0, 0, 0], [0, 1.0, 1.0]])  # targets by sources: links (0, 0), (1, 2), (2, 2)
    assert soft(rows, SURE, POSSIBLE) == approx(error_counts({(0, 0), (1, 2), (2, 2)}, SURE, POSSIBLE))
    assert soft(rows / 2, SURE, POSSIBLE) == approx([0.5, 1.0, 1.5, 2.0])


def argmax_truths(links):
    assert links(np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])) == {
        (2, 0),
        (0, 1),
    }  # two targets attend to three sources
    assert links(np.array([[0.0, 0.0], [0.5, 0.5]])) == {(0, 1)}  # an empty row links nothing; of equals the first


def grown_truths(grow):
    forward, backward = {(0, 0), (1, 1), (2, 1)}, {(0, 0), (1, 1), (2, 2), (5, 5)}
    assert grow(forward, backward) == {(0, 0), (1, 1), (2, 2)}  # source 2 is taken by then, and 5-5 has no neighbour
    assert grow({(0, 0), (1, 1)}, {(0, 0), (1, 0)}) == {(0, 0), (1, 1)}  # target 0 was linked, target 1 was not
    assert grow(set(), {(0, 0)}) == set()


def correctness_truths(correctness):
    assert correctness([0.5, 0.3, 0.2], [0, 0, 1]) == approx(0.2)
    assert correctness([0.5, 0.3, 0.2], [1, 1, 1]) == approx(1) and correctness([0.5, 0.5], [0, 0]) == 0
    assert correctness([0.25] * 4, [1, 0, 1, 0.5]) == approx(2.5 / 4)
    with pytest.raises(ValueError, match="sum"):
        correctness([1.0, 1.0], [1, 0])


def precision_truths(precision):
    assert precision([0.9, 0.8, 0.1], [1, 0, 1]) == approx((1 + 2 / 3) / 2)
    assert precision([0.9, 0.8], [0, 1]) == 0.5  # the reason is ranked second
    assert precision([1, 1, 1], [1, 0, 0]) == approx((1 + 1 / 2 + 1 / 3) / 3)  # in any order alike
    assert precision([2, 1, 1, 0], [0, 1, 0, 1]) == approx((1 / 2 + 1 / 3) / 4 + 1 / 4)
    assert math.isnan(precision([1, 2], [0, 0]))


def auprc_truths(auprc):
    assert auprc([0.9, 0.8, 0.1], [1, 0, 1]) == approx(0.5 + 0.5 * (1 / 2 + 2 / 3) / 2)
    assert auprc([3, 2, 1], [1, 1, 0]) == 1
    assert math.isnan(auprc([1, 2], [0, 0]))


def f1_truths(f1):
    assert f1(np.array([[1, 2, 1, 2], [1, 1, 1, 4]])) == approx((0.5 + 0.4) / 2)  # micro: 2 of 3, 2 of 6, hence .444
    assert f1(np.array([[0, 0, 0, 3]])) == 0


def span_truths(counts):
    assert counts([(0, 2), (2, 4)], [(0, 4)]).tolist() == [2, 2, 1, 1]  # halves reach .5; the whole is matched once
    assert counts([(0, 1)], [(0, 4), (9, 10)]).tolist() == [0, 1, 0, 2]
    assert counts([], [(0, 4)]).tolist() == [0, 0, 0, 1]


def top_truths(top):
    assert top([0.1, 0.5, 0.4], 0.5).tolist() == [False, True, True]  # ceil(1.5)
    assert top([0.1, 0.5, 0.4], 0.01).sum() == 1
    assert top(np.arange(30), 0.1).sum() == 3


def rank_truths(correlation):
    assert correlation([1, 2, 2, 40], [1, 3, 2, 4]) == approx(4.5 / math.sqrt(4.5 * 5))
    assert correlation([1, 2, 3], [9, 4, 1]) == approx(-1)
    assert math.isnan(correlation([1, 1, 1], [1, 2, 3]))


def divergence_truths(kl):
    assert kl([0.25, 0.25, 0.5], [0.5, 0.5, 0.0]) == approx(math.log(2))
    assert kl([1, 1, 2], [2, 2, 0]) == approx(math.log(2))  # both are divided by their sums
    assert kl([0, 1], [1, 1]) == math.inf


def nss_truths(nss):
    assert nss([0, 0, 0, 4], [0, 0, 0, 2]) == approx(math.sqrt(3))
    assert nss([0, 0, 0, 4], [1, 1, 1, 1]) == approx(0)
    assert nss([0, 1, 2, 4], [0, 2, 0, 1]) == approx((2 * (1 - 1.75) + (4 - 1.75)) / 3 / np.std([0, 1, 2, 4]))


def judd_truths(judd):
    assert judd([4, 3, 2, 1], [1, 0, 1, 0]) == approx(0.5 * (0.5 + 1) / 2 + 0.5)
    assert judd([4, 3, 2, 1], [3, 1, 0, 0]) == 1
    assert judd([1, 1, 1], [1, 0, 0]) == 0.5


def ceiling_truths(ceiling):
    people = [[1, 2, 3], [1, 3, 2], [3, 2, 1]]  # the others of the second sum to a constant: undefined, left out
    assert ceiling(people, rank_correlation) == approx((-0.5 - 1.5 / math.sqrt(3)) / 2)
    assert math.isnan(ceiling([[1, 2, 3]], rank_correlation))


def extrinsic_truths(judged):
    def of(name, *given, **options):
        return {one.name: one.value for one in judged(*given, resamples=1, **options)}[name]

    assert of("word error rate", "speech", ["a c d e"], ["a b c"]) == approx(100)  # b gone, d and e too many: 3 of 3
    assert of("word error rate", "speech", ["a"], ["a b c d"]) == approx(75)
    said, wanted = ["n", "n", "p", "p"], ["n", "p", "p", "p"]
    assert of("recall, macro", "classification", said, wanted) == approx((1 + 2 / 3) / 2)
    assert of("precision, macro", "classification", said, wanted) == approx((1 / 2 + 1) / 2)
    assert of("F1, macro", "classification", said, wanted) == approx((2 / 3 + 4 / 5) / 2)
    assert of("AUC", "classification", said, wanted, scores=[0.1, 0.2, 0.9, 0.05]) == approx(2 / 3)
    assert of("RMSE", "regression", [1.0, 2.0], [1.0, 4.0]) == approx(math.sqrt(2))
    assert of("BLEU", "translation", ["a b c d"], ["a b c d e"]) == approx(100 * math.exp(1 - 5 / 4))


def estimate_truths(estimate):
    seeds = np.array([[0.0], [1.0], [2.0], [3.0]]) + np.zeros((4, 30))
    ends = estimate(seeds, seeds=True).interval or (0.0, 0.0)
    assert ends[1] - ends[0] >= 1.5  # 30 instances that agree add nothing to four seeds


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


BAG = Adapter(Bag(), [Instance(torch.tensor([2, 1, 3])), Instance(torch.tensor([4, 1, 2, 2]))])


def erased_truths(erased):
    found = erased(BAG, gradient_times_input)
    # -0.5 + 1.5 + 0.25: without 1.5, and without 0.25 too; with 1.5 alone, and with 0.25
    whole = sigmoid(1.25)
    assert found[0, 0] == approx(whole - (sigmoid(-0.25) + sigmoid(-0.5)) / 2)
    assert found[0, 1] == approx(whole - (sigmoid(1.5) + sigmoid(1.75)) / 2)
    assert found[0, 2:].tolist() == approx([1 / 3, 1])
    # class 0 is predicted of -2 + 1.5 - 0.5 - 0.5; 1.5 speaks against it and is the last to go
    assert found[1, 0] == approx(sigmoid(1.5) - (1 - sigmoid(0.5) + 1 - sigmoid(1.0)) / 2)
    assert found[1, 2:].tolist() == [0.25, 1]


def unpredicted_truths(unpredicted):
    found = unpredicted(
        BAG,
        {
            "exact": gradient_times_input,
            "twice": lambda *x: 2 * gradient_times_input(*x),
            "wrong sign": lambda *x: -gradient_times_input(*x),
            "even": uniform,
        },
    )
    assert found["exact"] == approx(0, abs=1e-9) and found["twice"] == approx(0, abs=1e-9)
    assert found["wrong sign"] == approx(1)
    assert all(0.2 < one < 1 for one in found["even"][0])


def unexplained_truths(unexplained):
    told, change = torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([[2.0, 1.0, 2.0]])
    assert float(unexplained(told, change)) == approx(1 - 4**2 / (5 * 9))  # the best scale is 4 / 5
    assert float(unexplained(-told, change)) == 1 and float(unexplained(0 * told, change)) == 1
    assert math.isnan(unexplained(told, 0 * change))


def taus_truths(taus):
    sizes = {"signed": gradient_times_input, "size": lambda *x: gradient_times_input(*x).abs()}
    found = taus(BAG, sizes | {"even": uniform})
    assert found[:, 0, 0] == approx(1) and np.isnan(found[:, 2]).all()  # a constant has no order, not even its own
    # of the second text 2, -1.5, 0.5, 0.5 and their sizes: six pairs, a tie in both, three alike, two turned
    assert found[1, 0, 1] == approx((3 - 2) / 5) and found[1, 1, 0] == found[1, 0, 1]
    assert found[0, 0, 1] == approx(1 / 3)  # 1.5, 0.25, -0.5


TRUTHS = {
    "erased": (erased, erased_truths),
    "unpredicted": (unpredicted, unpredicted_truths),
    "unexplained": (unexplained, unexplained_truths),
    "taus_of": (taus_of, taus_truths),
    "aer": (aer, aer_truths),
    "soft_counts": (soft_counts, soft_truths),
    "argmax_links": (argmax_links, argmax_truths),
    "grow_diagonal": (grow_diagonal, grown_truths),
    "correctness": (attention_correctness, correctness_truths),
    "average precision": (average_precision, precision_truths),
    "auprc": (auprc, auprc_truths),
    "macro_f1": (macro_f1, f1_truths),
    "span_counts": (span_counts, span_truths),
    "top_marks": (top_marks, top_truths),
    "rank_correlation": (rank_correlation, rank_truths),
    "divergence": (divergence, divergence_truths),
    "nss": (nss, nss_truths),
    "auc_judd": (auc_judd, judd_truths),
    "human_ceiling": (human_ceiling, ceiling_truths),
    "extrinsic": (extrinsic, extrinsic_truths),
    "estimate": (estimate, estimate_truths),
}


def pearson(a, b):
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) and np.ptp(b) else math.nan


def roc(weights, fixated):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(np.asarray(fixated) > 0, weights)


def eraser_recall(found, marked):
    counts = span_counts(found, marked)
    return np.array([counts[0], counts[1], counts[0], counts[3]])


def not_crossed(values, seeds):
    return estimate(np.ravel(values))


def oneself_too(people, measure):
    total = np.sum(people, 0)
    return float(np.nanmean([measure(total, one) for one in people])) if len(people) > 1 else math.nan


def negated(task, said, wanted, scores=None, **options):
    return extrinsic(task, said, wanted, **options, **({} if scores is None else {"scores": -np.asarray(scores)}))


def swapped(task, said, wanted, **options):
    return extrinsic(task, wanted, said, **options)


def negative(measure):
    return lambda *given: -measure(*given)


def error_alone(told, change):
    return ((told - change).square().sum(-1) / change.square().sum(-1)).clamp_max(1)


def any_scale(told, change):
    met = (told * change).sum(-1).square() / told.square().sum(-1).clamp_min(1e-9)
    return 1 - met / change.square().sum(-1)


MUTANTS = {
    "erased": {
        "sufficiency is comprehensiveness": lambda a, m: erased(a, m)[:, [0, 0, 2, 3]],
        "sign flipped": lambda a, m: erased(a, negative(m)),
        "comprehensiveness and sufficiency swapped": lambda a, m: erased(a, m)[:, [1, 0, 2, 3]],
        "signs forgotten": lambda a, m: erased(a, lambda *x: m(*x).abs()),
        "one bin": lambda a, m: erased(a, m, bins=(0.5,)),
    },
    "unpredicted": {
        "sign flipped": lambda a, m: unpredicted(a, {name: negative(one) for name, one in m.items()}),
        "signs forgotten": lambda a, m: unpredicted(a, {k: lambda *x, f=f: f(*x).abs() for k, f in m.items()}),
    },
    "unexplained": {
        "no scale": error_alone,
        "scale of any sign": any_scale,
        "swapped": lambda told, change: unexplained(change, told),
    },
    "taus_of": {
        "sizes alone": lambda a, m: taus_of(a, {k: lambda *x, f=f: f(*x).abs() for k, f in m.items()}),
        "one side negated": lambda a, m: taus_of(a, m | {"size": negative(m["size"])}),
    },
    "aer": {
        "sure and possible swapped": lambda a, s, p: aer(a, p, s),
        "links flipped": lambda a, s, p: aer(turned(a), s, p),
        "sure links alone": lambda a, s, p: aer(a, s, s),
    },
    "soft_counts": {"orientation flipped": lambda w, s, p: soft_counts(w.T, s, p)},
    "argmax_links": {
        "orientation flipped": lambda w: turned(argmax_links(w)),
        "attended words choose": lambda w: argmax_links(w.T),
    },
    "grow_diagonal": {
        "one free word is enough": lambda f, b: grow_diagonal(f, b, free="either"),
        "nothing grows": lambda f, b: frozenset(f) & frozenset(b),
        "union": union,
        "final": lambda f, b: grow_diagonal(f, b, final=True),
    },
    "correctness": {
        "what was not marked": lambda a, g: attention_correctness(a, 1 - np.asarray(g)),
        "no check of the sum": lambda a, g: float(np.dot(a, g)),
        "mean of the marked": lambda a, g: attention_correctness(a, g) / max(1, np.sum(g)),
    },
    "average precision": {
        "upside down": lambda w, g: average_precision(-np.asarray(w), g),
        "equal weights in the order given": lambda w, g: average_precision(np.asarray(w) - 1e-9 * np.arange(len(w)), g),
        "trapezoids": auprc,
    },
    "auprc": {
        "upside down": lambda w, g: auprc(-np.asarray(w), g),
        "marks flipped": lambda w, g: auprc(w, 1 - np.asarray(g)),
        "ROC": lambda w, g: roc(w, g) if any(g) else math.nan,
    },
    "macro_f1": {"micro": micro_f1, "recall forgotten": lambda c: macro_f1(c[:, [0, 1, 0, 1]])},
    "span_counts": {
        "ERASER's recall": eraser_recall,
        "exact": lambda f, g: span_counts(f, g, 1.0),
        "sides swapped": lambda f, g: span_counts(g, f),
    },
    "top_marks": {
        "least weight": lambda w, share: top_marks(-np.asarray(w), share),
        "rounded down": lambda w, share: np.arange(len(w)) < int(share * len(w)),
    },
    "rank_correlation": {
        "values for ranks": pearson,
        "sign": lambda a, b: -rank_correlation(a, b),
        "ties in order": lambda a, b: pearson(np.argsort(np.argsort(a)), np.argsort(np.argsort(b))),
    },
    "divergence": {
        "swapped": lambda w, h: divergence(h, w),
        "in bits": lambda w, h: divergence(w, h) / math.log(2),
        "both ways": lambda w, h: (divergence(w, h) + divergence(h, w)) / 2,
    },
    "nss": {
        "not standardised": lambda w, f: float(np.average(w, weights=f)),
        "flipped": lambda w, f: nss(w[::-1], f),
        "sample deviation": lambda w, f: nss(w, f) * np.std(w) / np.std(w, ddof=1),
        "a place counts once": lambda w, f: nss(w, np.asarray(f) > 0),
    },
    "auc_judd": {
        "every threshold": roc,
        "upside down": lambda w, f: auc_judd(-np.asarray(w), f),
        "flipped": lambda w, f: auc_judd(w[::-1], f),
    },
    "human_ceiling": {"oneself too": oneself_too},
    "extrinsic": {"said and wanted swapped": swapped, "scores negated": negated},
    "estimate": {
        "not crossed": not_crossed,
        "instances alone": lambda v, seeds: estimate(np.mean(v, 0)),
        "no interval": lambda v, seeds: Estimate(0.0, (0.0, 0.0), 1),
    },
}


@pytest.mark.parametrize("name", TRUTHS)
def test_each_metric_keeps_its_truths(name):
    metric, truths = TRUTHS[name]
    truths(metric)


@pytest.mark.parametrize(("name", "mutant"), [(name, mutant) for name, all_of in MUTANTS.items() for mutant in all_of])
def test_each_mutant_breaks_one(name, mutant):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        TRUTHS[name][1](MUTANTS[name][mutant])


def test_every_metric_has_a_mutant():
    assert set(MUTANTS) == set(TRUTHS)


def test_runs_of_marks_are_spans():
    assert spans([0, 1, 1, 0, 1]) == [(1, 3), (4, 5)] and spans([1, 1]) == [(0, 2)] and spans([]) == []
