"""Every test of the suite on planted results: its sentences say what its numbers say."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from tests.judging.built_models import built
from tests.sampling import mostly_slow

from regard.data import cipher
from regard.data.aligned_pair import AlignedPair
from regard.judging import Adapter, Report
from regard.judging.adapters.graph_adapter import on_graph
from regard.judging.alignment.error_rate import judge_alignment, judge_soft_alignment
from regard.judging.plausibility.correctness import judge_correctness
from regard.judging.plausibility.fixations import MEASURES, judge_fixations
from regard.judging.plausibility.overlap import judge_overlap
from regard.judging.suite import Judged, all_tests, run
from regard.judging.task_metrics import extrinsic
from regard.judging.tests.translation import Translator
from regard.lab.validation.built import chosen_models
from regard.lab.validation.models.graphs import Decisive, Decoration, stars
from regard.models.builders import translator

pytest.importorskip("scipy")
pytest.importorskip("sklearn")


def texts(count):
    """Texts with labels, whose evidence word is marked."""
    _, some, places = built("bottleneck")
    made = []
    for one, place in zip(some[:count], places[:count], strict=True):
        marks = torch.zeros(len(one.tokens), dtype=torch.bool)
        marks[place] = True
        made.append(replace(one, marks=marks))
    return made


def filled(column, value):
    """The bottleneck with one of its two columns, what a word says and how much it is looked at, of one value."""
    model = built("bottleneck")[0]
    with torch.no_grad():
        model.vectors.weight[:, column] = value
    return model


def short(length, count=9):
    return [replace(one, tokens=one.tokens[:length], marks=torch.ones(length).bool()) for one in texts(count)]


PLANTED = {
    "as it is": lambda: (built("bottleneck")[0], texts(9)),
    "constant weights": lambda: (filled(1, 0.0), texts(9)),
    "nothing moves": lambda: (filled(0, 0.0), texts(9)),
    "one instance": lambda: (built("bottleneck")[0], texts(1)),
    "one unit": lambda: (built("bottleneck")[0], short(1)),
    "two units": lambda: (built("bottleneck")[0], short(2)),
    "one class": lambda: (built("bottleneck")[0], [one for one in texts(20) if one.label == 1]),
    "no mark": lambda: (built("bottleneck")[0], [replace(one, marks=torch.zeros_like(one.marks)) for one in texts(9)]),
    "certain": lambda: (filled(0, 1e6), texts(9)),
}


def nodes(count, make=Decisive, gold=False):
    x, edges, labels = stars(max(count, 2))
    return on_graph(make().eval(), x, edges, list(range(count)), labels, hops=1)


def lonely():
    """Nodes with one neighbour: nothing can be ranked."""
    x, _, labels = stars(9)
    edges = torch.stack([torch.arange(9, 18), torch.arange(9)])
    return on_graph(Decisive().eval(), x, edges, list(range(9)), labels, hops=1)


def writer(count=9, gold=True):
    for package in ("sacrebleu", "nltk"):
        pytest.importorskip(package)
    task = cipher(words=20, shortest=3, longest=7, train=2, val=2, test=count)
    torch.manual_seed(0)
    model = translator(len(task.words), len(task.target_words), dim=8, width=8).eval()
    test = task.test if gold else [type(one)(one.inputs, one.target, id=one.id) for one in task.test]
    return Translator(model, test, words=task.words, target_words=task.target_words)


ADAPTERS = {
    "nodes": lambda: nodes(9),
    "decorated nodes": lambda: nodes(9, Decoration),
    "one node": lambda: nodes(1),
    "lonely nodes": lonely,
    "two heads, one of them read": lambda: chosen_models("one dead head")[0].adapter(9),
    "a writer": writer,
    "a writer of one pair": lambda: writer(1),
    "a writer without links": lambda: writer(gold=False),
}
EVERY = mostly_slow(
    [*PLANTED, *ADAPTERS],
    *("as it is", "constant weights", "one instance", "one unit", "no mark", "certain"),
    *("nodes", "lonely nodes", "two heads, one of them read", "a writer of one pair"),
)
SLOW = {"adversary", "everywhere"}  # their five hundred steps are tried on the edges alone


@cache
def judged(planted) -> Report:
    adapter = ADAPTERS[planted]() if planted in ADAPTERS else Adapter(*PLANTED[planted]())
    tests = [one for one in all_tests() if one.name not in SLOW or planted in ("one unit", "nothing moves")]
    return Report({"model class": "Built"}, [run(one, adapter) for one in tests])


def true_numbers(one):
    """No number that is none, no 0 with a sign, and 0 % and 100 % of nothing and of all alone."""
    assert not re.search(r"\b(nan|None|inf)\b", one.says), str(one)
    assert not re.search(r"(?<!than )-0(\.0+)?(?![.\d])", one.says), str(one)
    assert not one.says[0].islower() or one.value is None, str(one)
    first = re.match(r"\D*?(\d+)%", one.says)
    if first and one.unit != "%" and one.value is not None and one.value >= 0:
        assert (first[1] == "100") <= (one.value == 1) and (first[1] == "0") <= (one.value == 0), str(one)


@pytest.mark.parametrize("planted", EVERY)
def test_what_is_undefined_is_called_so_and_has_no_verdict(planted):
    for one in judged(planted).findings:
        assert (one.value is None) == ("undefined" in one.says.partition(":")[0]), str(one)
        if one.value is None:
            assert one.standing[1] == "undefined" and one.interval is None and ":" in one.says, str(one)


@pytest.mark.parametrize("planted", EVERY)
def test_no_sentence_has_a_zero_that_is_none_or_no_number_at_all(planted):
    for one in judged(planted).findings:
        true_numbers(one)
        assert not re.search(r"more than 0(\.0+)?(?![.\d])", one.says), str(one)  # more than nothing is something
        if one.value is not None and 0 < abs(one.value) < 5e-4 and "move" in one.says:
            assert not re.search(r"by 0(\.0+)?(?![.\d])", one.says), str(one)


@pytest.mark.parametrize("planted", EVERY)
def test_a_verdict_is_said_of_enough_instances_and_only_with_a_p(planted):
    for one in judged(planted).findings:
        main, how = one.standing
        if how != "undefined":
            assert one.differences[main].p is not None
        elif one.value is not None and one.better != "neither":
            assert one.why, str(one)
        if how in ("better", "worse"):
            assert one.differences[main].n >= 6, str(one)


def test_a_class_that_gains_is_not_said_to_lose_less_than_nothing():
    for planted in ("as it is", "two units", "two heads, one of them read", "nodes"):
        for one in judged(planted).findings:
            assert not re.search(r"(loses|falls by|moves by|fewer|above its mean) (more than )?-", one.says), str(one)


def test_what_rounding_moves_is_no_movement():
    """Of vectors of a billionth the class loses 1e-9, the same at each text: that is no reason for a verdict."""
    model = filled(0, 1.0)
    with torch.no_grad():
        model.vectors.weight[:, 0] = built("bottleneck")[0].vectors.weight[:, 0] * 1e-9
    tests = [one for one in all_tests() if one.name in ("faithfulness", "infidelity")]
    found = {one.name: one for one in Report({}, [run(one, Adapter(model, texts(12))) for one in tests]).findings}
    for name in ("comprehensiveness of attention", "sufficiency of attention"):
        assert found[name].value == 0 and found[name].standing[1] == "not significantly different"
    assert found["infidelity of attention"].value is None


def test_a_model_whose_output_never_moves_is_said_not_to_move():
    found = {one.name: one for one in judged("nothing moves").findings}
    for name in ("uniform weights: change of the output", "permuted weights"):
        assert found[name].value == 0 and "not move" in found[name].says
    assert "undefined: the output of no instance changes" in found["infidelity of attention"].says
    moved = [one for one in found.values() if one.test in ("ablation", "permutation", "faithfulness", "infidelity")]
    assert moved and {one.standing[1] for one in moved} <= {"undefined", "not significantly different"}


def test_constant_weights_are_at_chance_wherever_they_are_ranked():
    found = {one.name: one for one in judged("constant weights").findings}
    for name in ("average precision", "token F1", "IOU-F1", "comprehensiveness of attention"):
        assert found[name].standing[1] in ("not significantly different", "worse"), str(found[name])
    assert found["average precision"].value == pytest.approx(found["average precision"].baselines["random"])
    assert "both attention and gradient rank" in found["tau of attention and gradient"].says


def test_of_one_instance_nothing_is_better_or_worse():
    assert {one.standing[1] for one in judged("one instance").findings} <= {"undefined"}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_that_gives_no_number_is_refused_before_anything_is_said(value):
    adapter = Adapter(filled(0, value), texts(3))
    for name in ("task", "ablation", "correlation", "faithfulness", "infidelity", "permutation"):
        with pytest.raises(ValueError, match="gives no number"):
            run(next(one for one in all_tests() if one.name == name), adapter)


def test_no_instance_at_all_is_refused():
    with pytest.raises(ValueError, match="is empty"):
        Adapter(built("bottleneck")[0], [])


def test_a_test_that_is_left_out_says_why():
    assert all(isinstance(one, Judged) and (one.findings or one.left_out) for one in judged("as it is").tests)


ANSWERS = {
    "right": (["a", "b"] * 9, ["a", "b"] * 9),
    "wrong": (["b", "a"] * 9, ["a", "b"] * 9),
    "constant": (["a"] * 18, ["a", "b"] * 9),
    "one class": (["a"] * 9, ["a"] * 9),
    "one instance": (["a"], ["a"]),
    "no instance": ([], []),
}


@pytest.mark.parametrize("planted", ANSWERS)
def test_sentences_about_answers_are_true_of_planted_answers(planted):
    said, wanted = ANSWERS[planted]
    found = {one.name: one for one in extrinsic("classification", said, wanted, classes=["a", "b"])}
    for one in found.values():
        true_numbers(one)
        assert (one.value is None) == ("undefined" in one.says), str(one)
        assert one.value is not None or (one.standing[1] == "undefined" and one.interval is None)
    if planted == "no instance":
        assert all("there is no instance" in one.says for one in found.values())
    if planted in ("constant", "one class", "one instance", "no instance"):
        assert "better" not in {one.standing[1] for one in found.values()}
    if planted == "right":
        assert found["accuracy"].standing[1] == found["F1, macro"].standing[1] == "better"
    if planted == "wrong":
        assert found["accuracy"].standing[1] == found["F1, macro"].standing[1] == "worse"


@pytest.mark.parametrize("task", ["regression", "translation", "speech", "phones"])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_sentences_about_numbers_and_texts_are_true_of_planted_ones(task, count):
    for package in ("sacrebleu", "nltk", "jiwer"):
        pytest.importorskip(package)
    wanted = [float(i % 3) for i in range(count)] if task == "regression" else ["a film we saw"] * count
    for said in (wanted, [1.0] * count if task == "regression" else [""] * count):
        for one in extrinsic(task, said, wanted):
            true_numbers(one)
            assert (one.value is None) == ("undefined" in one.says), str(one)
            if one.value is None:
                assert one.standing[1] == "undefined"


@pytest.mark.parametrize("count", [0, 1, 9])
@pytest.mark.parametrize("weights", ["constant", "on the mark", "beside it", "nowhere marked"])
def test_sentences_about_people_are_true_of_planted_weights(count, weights):
    mark = np.array([0, 1, 0, 0, 0], dtype=bool)
    row = {"on the mark": np.array([0.0, 1, 0, 0, 0]), "beside it": np.array([1.0, 0, 0, 0, 0])}
    rows = [row.get(weights, np.full(5, 0.2))] * count
    marks = [mark & (weights != "nowhere marked")] * count
    human = [np.array([1.0, 5, 1, 1, 1])] * count
    found = [
        *judge_overlap(rows, marks),
        *judge_correctness(rows, marks),
        *judge_fixations(rows, human, list(MEASURES)),
    ]
    for one in found:
        true_numbers(one)
        assert (one.value is None) == one.says.startswith("undefined:"), str(one)
        if one.value is None or count < 8:
            assert one.standing[1] in ("undefined", "not significantly different"), str(one)
    held = {one.name: one.standing[1] for one in found}
    if count == 9:
        assert held["average precision"] == {"on the mark": "better"}.get(weights, held["average precision"])
        assert weights != "constant" or held["average precision"] != "better"


@pytest.mark.parametrize("count", [0, 1, 9])
@pytest.mark.parametrize("links", [{(0, 0), (1, 1)}, {(0, 1), (1, 0)}, set()])
def test_sentences_about_links_are_true_of_planted_links(count, links):
    pair = AlignedPair(("a", "b"), ("x", "y"), frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    soft = np.array([[float((i, j) in links) for i in range(2)] for j in range(2)])
    for one in (
        *judge_alignment([links] * count, [pair] * count),
        *judge_soft_alignment([soft] * count, [pair] * count),
    ):
        true_numbers(one)
        assert (one.value is None) == one.says.startswith("undefined:"), str(one)
        if one.value is None or count < 8:
            assert one.standing[1] in ("undefined", "not significantly different"), str(one)
