"""The battery: tests by name, what they hand over, and what is left out."""

import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.judging.adapters.test_adapter import bert
from tests.judging.built_models import built
from torch import nn

from regard.interventions import Replace
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.inputs import Instance
from regard.judging.artifacts import (
    Grid,
    Histogram,
    Plot,
    Series,
    TextExample,
    TextExamples,
    add_artifact,
    collect_artifacts,
    from_dict,
)
from regard.judging.examples import cut
from regard.judging.statistics.divergence import jsd, tvd
from regard.judging.suite import Judge, Judged, all_tests, chosen, run
from regard.judging.tests.adversarial import KEPT, seek
from regard.judging.tests.correlation import correlation, taus
from regard.judging.tests.permutation import moved

pytest.importorskip("scipy")
pytest.importorskip("sklearn")


def marked(name="bottleneck", count=12):
    """Texts whose evidence word is what people marked."""
    model, texts, places = built(name)
    some = []
    for one, place in zip(texts[:count], places[:count], strict=True):
        marks = torch.zeros(len(one.tokens), dtype=torch.bool)
        marks[place] = True
        some.append(Instance(one.tokens, one.label, marks=marks))
    return Adapter(model, some, names=("negative", "positive"))


def by_name(name):
    return next(test for test in all_tests() if test.name == name)


def test_a_test_finds_the_same_with_and_without_somebody_who_gathers():
    adapter = marked()
    assert run(by_name("correlation"), adapter, seed=3).findings == correlation(adapter, seed=3)


def test_what_is_kept_is_what_was_measured():
    adapter = marked()
    agreement = run(by_name("correlation"), adapter).evidence[0]
    tau, _ = taus(adapter)
    assert_allclose(np.array(agreement.values["attention and gradient"], dtype=float), tau[:, 0])
    points = run(by_name("permutation"), adapter).evidence[0].series[0]
    found = moved(adapter)
    assert_allclose(np.array([points.x, points.y]), found[:, [1, 0]].T)


def test_the_kept_adversary_has_the_told_divergence_and_gives_the_told_prediction():
    adapter = marked()
    found = seek(adapter, starts=2, steps=60)
    for place, ((own, other), (before, after)) in enumerate(zip(found.weights, found.said, strict=True)):
        assert_allclose(jsd(*map(torch.from_numpy, (own, other))), found.best(KEPT)[place], atol=1e-9)
        given = torch.from_numpy(other).float()[None, None, None]
        again = adapter.predict(adapter.inputs([place]), {"*": Replace(lambda weights, here, w=given: w)})[0]
        assert_allclose(again, after, atol=1e-6)
        assert tvd(*map(torch.from_numpy, (before, after))) <= KEPT


def test_the_grid_of_heads_has_what_the_ranking_has():
    judged = run(by_name("ablation"), bert())
    grid = next(one for one in judged.evidence if isinstance(one, Grid))
    ranked = {one.name: one.value for one in judged.findings if one.name.startswith("head")}
    for site, row in zip(grid.rows, grid.values, strict=True):
        for head, value in enumerate(row):
            assert ranked[f"head {head} of {site} silent"] == pytest.approx(value)


def test_a_weight_on_the_evidence_agrees_with_people_and_a_test_without_marks_is_left_out_by_name():
    found = {one.name: one for one in run(by_name("rationales"), marked()).findings}
    precision = found["average precision"]
    assert precision.value > 0.9 and precision.against("random") == "better"
    model, texts, _ = built("bottleneck")
    left = run(by_name("rationales"), Adapter(model, texts[:4]))
    assert not left.findings and "rationale" in left.left_out


def test_without_labels_nobody_says_how_often_the_model_is_right():
    model, texts, _ = built("bottleneck")
    bare = Adapter(model, [Instance(one.tokens) for one in texts[:4]])
    assert "label" in run(by_name("task"), bare).left_out


def test_the_task_stands_beside_what_is_trivial():
    model, texts, _ = built("bottleneck")
    wrong = [1 - one.label for one in texts]
    found = run(by_name("task"), Adapter(model, texts, trivial={"always wrong": wrong})).findings
    accuracy = next(one for one in found if one.name == "accuracy")
    assert accuracy.value == 1.0
    assert list(accuracy.baselines) == ["always wrong", "commonest class", "random answer"]
    assert [accuracy.baselines[name] for name in ("always wrong", "commonest class")] == [0.0, 0.5]
    assert accuracy.standing == ("always wrong", "better")
    assert all("commonest class" not in one.baselines for one in found if "macro" in one.name)


class NoTable(nn.Module):
    """Looks, and makes vectors of tokens without a table."""

    def forward(self, tokens, real):
        x = nn.functional.one_hot(tokens, 40).float()[:, None]
        return nn.functional.scaled_dot_product_attention(x[:, :, :1], x, x, real[:, None, None])[:, 0, 0, :2]


def test_a_model_without_vectors_is_left_out_of_what_needs_gradients_and_judged_by_the_rest():
    adapter = Adapter(NoTable(), [Instance(torch.tensor([1, 2, 3, 4]))] * 2)
    assert "nn.Embedding" in run(by_name("correlation"), adapter).left_out
    assert run(by_name("permutation"), adapter).findings


def test_another_error_is_not_swallowed():
    def broken(adapter, *, seed):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Judge("broken", "Is it?", broken), marked())


def test_names_choose_tests_in_the_order_of_the_battery():
    assert [one.name for one in chosen("permutation, task")] == ["task", "permutation"]
    assert chosen("all") == all_tests()
    for strange in ("permutations", "", []):
        with pytest.raises(ValueError, match="expected 'all' or some of task"):
            chosen(strange)


EVIDENCE = [
    Histogram("a", "tau", {"x": np.array([0.5, np.nan])}),
    Plot("b", "x", "y", [Series("s", [0.0, 1.0], [1.0, np.inf], [0.0, 0.0], [2.0, 2.0])]),
    Grid("c", ["r"], ["one", "two"], torch.tensor([[1.0, torch.nan]])),
    TextExamples("d", [TextExample("7", ["</script>", "b"], {"attention": [0.1, 0.9]}, {"says": "yes"})]),
]


@pytest.mark.parametrize("one", EVIDENCE, ids=lambda one: one.kind)
def test_evidence_and_judged_come_back_from_json(one):
    text = json.dumps(one.as_dict(), allow_nan=False)
    assert from_dict(json.loads(text)) == one
    judged = Judged("a", "b?", [], [one], "")
    assert Judged.from_dict(json.loads(json.dumps(judged.as_dict(), allow_nan=False))) == judged


def test_evidence_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="expected as many"):
        Series("s", [1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="expected 1 rows of 2"):
        Grid("g", ["r"], ["a", "b"], [[1.0]])
    with pytest.raises(ValueError, match="1 weights for 2 words"):
        TextExample("e", ["a", "b"], {"attention": [1.0]})
    with pytest.raises(ValueError, match="kind 'video'"):
        from_dict({"kind": "video"})
    with pytest.raises(ValueError, match="not whole"):
        from_dict({"kind": "grid", "title": "t"})


def test_what_is_kept_inside_of_another_gathering_stays_there():
    with collect_artifacts() as outer:
        with collect_artifacts() as inner:
            add_artifact(EVIDENCE[0])
        add_artifact(EVIDENCE[2])
    assert inner == [EVIDENCE[0]] and outer == [EVIDENCE[2]]


def test_of_a_long_text_the_stretch_is_shown_that_people_marked_and_the_weights_go_with_their_words():
    words = [str(place) for place in range(300)]
    text = TextExample(
        "long", words, {"attention": list(range(300)), "marked by people": [float(150 <= i < 160) for i in range(300)]}
    )
    found = cut(text)
    assert len(found.words) == 120 and {"150", "159"} <= set(found.words)
    assert [float(word) for word in found.words] == list(found.weights["attention"])
    assert found.facts["shown"] == f"tokens {int(found.words[0]) + 1} to {int(found.words[-1]) + 1} of 300"
    assert cut(found) == found
