"""Judges that train: what is known of planted tasks comes out, and the test part decides nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from regard.core.scores import QueryFree
from regard.data import Example, retrieval
from regard.data.task import Task
from regard.judging.artifacts import collect_artifacts
from regard.judging.retraining import (
    Retraining,
    TrainedReadout,
    guides,
    seed_variance,
    trained_adversary,
    uniform_retraining,
)
from regard.judging.retraining.retraining import against
from regard.judging.retraining.scoring import accuracy, f1
from regard.judging.retraining.seeds import apart, even
from regard.judging.statistics.divergence import LARGEST, kl
from regard.models import builders, features, output_heads, queries
from regard.models.guided_attention import GoldQuery, GuidedAttention
from regard.models.task_model import TaskModel
from regard.models.training.trainer import Training
from regard.nn.attend import Attend

SMALL = Training(epochs=6, batch=32, rate=2e-2, patience=6)


def asked(folder=None):
    """A question names a key: without attention by the question only the most frequent value can be said."""
    task = retrieval(3, 4, 2, train=300, val=60, test=60)
    return Retraining(task, lambda attention, context: builders.retriever(4, 2, attention, 8), SMALL, folder=folder)


def pointed(count=240, seed=0):
    """As many good words (1) as bad ones (2) among noise; the gold points at the one that counts."""
    draw = np.random.default_rng(seed)

    def example(place):
        words = draw.permutation([1, 1, 2, 2, 3, 4])
        counts = int(draw.choice(np.flatnonzero(words < 3)))
        gold = torch.zeros(6).index_fill_(0, torch.tensor([counts]), 1.0)
        return Example(torch.from_numpy(words), torch.tensor(int(words[counts] == 1)), gold, id=place)

    return Task("pointed", *([example(place) for place in range(n)] for n in (count, 60, 60)), classes=2)


def reader(attention, context):
    seen = features.Embedded(5, 6, deviation=1.0)
    seen = features.Recurrent(seen, 3, "lstm", marks=True) if context else features.Alone(seen, 6)
    if attention == "given":
        return TaskModel(seen, GoldQuery(), GuidedAttention(6), output_heads.Classes(6, 2))
    part = Attend(6, 6, QueryFree(6, 4), "uniform" if attention == "uniform" else "softmax")
    return TaskModel(seen, queries.Learned(6), part, output_heads.Classes(6, 2))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("read")


def by_name(findings):
    return {one.name: one for one in findings}


def test_where_a_question_decides_uniform_weights_lose(kept):
    found = by_name(uniform_retraining(asked(kept), seeds=2))
    lost = found["accuracy lost by uniform weights"]
    assert lost.value > 0.1 and "with 2 seeds attention is not seen to be needed" in lost.says  # p is never below .5
    assert found["accuracy, additive weights"].value > 0.95
    assert_allclose(lost.value, found["accuracy, additive weights"].value - found["accuracy, uniform weights"].value)


def test_where_bags_of_words_decide_uniform_weights_lose_nothing():
    task = pointed()
    for part in (task.train, task.val, task.test):
        for one in part:
            one.target.fill_(int(one.inputs[0] < 3))  # noise comes first or not: a bag of states knows
    found = by_name(uniform_retraining(Retraining(task, reader, replace(SMALL, epochs=8)), seeds=2))
    lost = found["accuracy lost by uniform weights"]
    assert lost.interval[0] <= 0 and "not seen to be needed" in lost.says


def test_where_the_truth_is_one_pair_seeds_agree_and_adversaries_pay(kept):
    some = asked(kept)
    with collect_artifacts() as seen:
        far, moved = seed_variance(some, seeds=2)
    assert far.value < 0.1 < far.baselines["base in another order"]
    assert moved.value < 0.1
    assert sum(len(x) for x in seen[0].values.values()) == len(some.task.test)
    sought = by_name(trained_adversary(some, strengths=(0.0, 1.0)))
    near, wide = (sought[f"trained adversary at {one:g}, weights"].value for one in (0.0, 1.0))
    assert near < 0.1 and wide > 0.3
    assert sought["trained adversary at 0, predictions"].value < 0.1
    assert sought["trained adversary at 1, predictions"].value > 0.2  # other weights cost the prediction


@pytest.mark.slow
def test_a_model_without_context_knows_what_its_guide_knows():
    some = Retraining(pointed(), reader, SMALL)
    gold = {part: [one.gold.numpy() for one in getattr(some.task, part)] for part in ("train", "val", "test")}
    told, wrong = some.guided("gold", gold), {p: [(w == 0) / 5 for w in rows] for p, rows in gold.items()}
    assert accuracy(told.classes(), some.labels) == 1.0
    assert_allclose(np.concatenate(told.weights["test"]), np.concatenate(gold["test"]), atol=1e-6)
    assert accuracy(some.guided("uniform", even(told).weights).classes(), some.labels) < 0.75  # every bag is the same
    others = some.guided("all but the one", wrong)  # what is left has one less of the class that is right
    assert accuracy(others.classes(), some.labels) == 1.0
    assert_allclose(others.weights["test"][0].sum(), 1.0, rtol=1e-6)


def test_the_guide_table_names_every_guide_with_the_others_beside_it():
    found = by_name(guides(Retraining(pointed(60), reader, replace(SMALL, epochs=1)), seeds=1))
    assert set(found["F1, guided by base"].baselines) == {"uniform", "learned", "adversary"}
    gain = found["F1 gained over uniform weights, guided by base"]
    assert_allclose(gain.value, found["F1, guided by base"].value - found["F1, guided by uniform"].value)


def test_no_gradient_leads_into_imposed_weights():
    query, values = torch.tensor([[[0.2, 0.8]]], requires_grad=True), torch.randn(1, 2, 6, requires_grad=True)
    out = reader("given", False).attention(query, values).out
    given, into = torch.autograd.grad(out.sum(), [query, values], allow_unused=True)
    assert given is None
    assert_close(into, query.detach().transpose(-1, -2).expand(1, 2, 6))


def loss_truths(loss):
    """By hand: TVD .3; KL of the adversary's weights from the base's .9 log(.9/.5) + .1 log(.1/.5)."""
    said, base_said = torch.tensor([[0.7, 0.3]]), torch.tensor([[0.4, 0.6]])
    weights, base_weights = torch.tensor([[0.9, 0.1, 0.0]]), torch.tensor([[0.5, 0.5, 0.0]])
    by_hand = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    assert_close(loss(said, base_said, weights, base_weights, 0.5), torch.tensor([0.3 - 0.5 * by_hand]).float())
    assert loss(said, said, weights, base_weights, 1.0) < 0  # to look elsewhere is score_function_loss


def test_the_adversary_s_loss_is_the_one_by_hand():
    loss_truths(against)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda y, b, w, v, s: (y - b).abs().sum(-1) / 2 - s * kl(v, w),
        lambda y, b, w, v, s: (y - b).abs().sum(-1) - s * kl(w, v),
        lambda y, b, w, v, s: (y - b).abs().sum(-1) / 2 + s * kl(w, v),
    ],
    ids=["KL swapped", "TVD doubled", "wrong sign"],
)
def test_a_broken_loss_is_found(mutant):
    with pytest.raises(AssertionError):
        loss_truths(mutant)


def selection_truths(kind):
    """Classes are switched in the test part: who chooses by it keeps another epoch, or another model."""
    task = pointed(120)
    for one in (*task.train, *task.val, *task.test):
        one.target.fill_(int(one.inputs[0] < 3))
    turned = replace(task, test=[replace(one, target=1 - one.target) for one in task.test])
    one, two = (kind(some, reader, replace(SMALL, epochs=5, rate=5e-3)).trained() for some in (task, turned))
    assert one.kept == two.kept
    for part in ("train", "val", "test"):
        assert_allclose(one.said[part], two.said[part])


class ChoosesByTest(Retraining):
    def _fit(self, model, objective, parts, seed, told):
        return super()._fit(model, objective, {**parts, "val": parts["test"]}, seed, told)


def test_the_test_part_decides_nothing():
    selection_truths(Retraining)


def test_who_chooses_by_the_test_part_is_found():
    with pytest.raises(AssertionError):
        selection_truths(ChoosesByTest)


def test_what_was_read_is_kept_and_not_trained_again(tmp_path):
    task = pointed(40)
    one = Retraining(task, reader, replace(SMALL, epochs=1), folder=tmp_path).trained(
        "additive", 3, also=lambda model: {"width": np.asarray([model.features.dim])}
    )

    def never(attention, context):
        raise AssertionError("built again")

    two = Retraining(task, never, SMALL, folder=tmp_path).trained("additive", 3)
    assert two.kept == one.kept == 1 and two.more["width"].tolist() == [6]
    assert_allclose(apart(one, two), 0.0, atol=1e-7)
    assert_allclose(one.said["val"], two.said["val"])
    assert [len(w) for w in two.weights["train"]] == [6] * 40


def test_f1_is_of_the_positive_class_and_of_more_classes_the_mean():
    said, wanted = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 1, 0, 1])
    assert_allclose(f1(said, wanted), 2 * 2 / (3 + 3))
    three = np.array([0, 1, 2, 2])
    assert_allclose(f1(np.array([0, 1, 1, 2]), three), (1 + 2 / 3 + 2 / 3) / 3)


def test_one_seed_has_no_variance():
    with pytest.raises(ValueError, match="2 or more"):
        seed_variance(asked(), seeds=1)


def test_uniform_weights_are_far_from_a_corner():
    one = TrainedReadout({}, {"test": [np.array([1.0, 0.0])]})
    assert 0 < apart(one, even(one))[0] < LARGEST
