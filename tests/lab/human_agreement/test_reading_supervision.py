"""Reading times as a teacher: attention learns planted readers, and a class is never learned from their sentences."""

import numpy as np
import pytest
import torch

pytest.importorskip("scipy")
pytest.importorskip("sklearn")
pytest.importorskip("lightning")

from tests.judging.progress_recorder import ProgressRecorder

from regard.data.batch import Example, collate
from regard.data.readers.reading_times import Reading
from regard.data.task import Task
from regard.data.vocabulary import Vocabulary
from regard.lab.human_agreement.reading_supervision import NOBODY, WAYS, JointTraining, as_read, judge_joint
from regard.models.builders import text_classifier
from regard.models.training.objectives import Classification
from regard.models.training.trainer import Training

WORDS = ("the", "dull", "bright", "film", "was", "very")
KNOWN = Vocabulary(WORDS)


def task(count=40):
    draw = np.random.default_rng(0)

    def part(some):
        made = []
        for place in range(some):
            text = [*draw.choice(["the", "film", "was"], 3), ("dull", "bright")[place % 2]]
            made.append(Example(KNOWN.encode(text), torch.tensor(place % 2), id=place))
        return made

    return Task("planted", part(count), part(20), part(20), classes=2, words=KNOWN)


def readers(count=60):
    """Everybody reads the word `very` longest."""
    draw = np.random.default_rng(1)
    made = []
    for _ in range(count):
        words = [*draw.choice(["the", "film", "was"], 4), "very"]
        draw.shuffle(words)
        share = np.array([0.6 if word == "very" else 0.1 for word in words])
        made.append(Reading(tuple(words), share / share.sum()))
    return made


@pytest.mark.slow
def test_attention_learns_to_look_as_readers_do(tmp_path):
    how = JointTraining(weight=2.0, training=Training(epochs=8, batch=10, rate=2e-2, patience=8), dim=8)
    given = {"ways": WAYS[:2], "seeds": 1, "held": 20, "how": how, "resamples": 50, "out": tmp_path}
    found = judge_joint(task(), readers(), **given, on_progress=(progress := ProgressRecorder()))
    assert progress.fills_one_bar(of=2)  # two classifiers
    by_name = {one.name: one for one in found}
    taught = by_name["agreement with readers, taught reading times"]
    assert taught.value > 0.6 and taught.n == 20  # .71 at most: all words but one are read alike
    assert by_name["accuracy, taught nothing"].value == 1.0  # one word tells the class
    assert by_name["gain in accuracy, taught reading times"].baselines == {"no gain": 0.0}
    again = judge_joint(task(), readers(), **given)
    assert [one.value for one in again] == [one.value for one in found]


def test_a_placebo_has_the_same_numbers_on_other_words():
    some = readers()
    real, placebo = (as_read(some, KNOWN, way, seed=0) for way in WAYS[1:])
    assert as_read(some, KNOWN, "nothing", 0) == []
    for one, other in zip(real, placebo, strict=True):
        assert torch.equal(one.inputs, other.inputs) and int(other.target) == NOBODY
        assert torch.equal(one.gold.sort().values, other.gold.sort().values)
    assert sum(torch.equal(one.gold, other.gold) for one, other in zip(real, placebo, strict=True)) < 30
    assert all(
        np.array_equal(one.gold, reading.share.astype(np.float32)) for one, reading in zip(real, some, strict=True)
    )


def test_a_sentence_without_a_class_teaches_attention_alone():
    torch.manual_seed(0)
    model = text_classifier(len(KNOWN), 2, dim=8, width=8).eval()
    text, gold = KNOWN.encode(["the", "very", "film"]), torch.tensor([0.0, 1.0, 0.0])
    batch = collate([Example(text, torch.tensor(NOBODY), gold=gold)])
    assert Classification()(model(batch), batch).item() == 0.0
    Classification(supervise=1.0)(model(batch), batch).backward()
    assert all(x.grad is None or not x.grad.any() for x in model.output.parameters())
    assert any(x.grad is not None and x.grad.any() for x in model.attention.parameters())


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="'nothing' first"):
        judge_joint(task(), readers(), ways=("reading times",))
    with pytest.raises(ValueError, match="fewer than the 60"):
        judge_joint(task(), readers(), held=60)
