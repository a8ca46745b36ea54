"""Attention by name: one grammar, read back as it was said; and what each word of it does to a model."""

import pytest
import torch
from torch.testing import assert_close

from regard import Padding
from regard.data.batch import collate
from regard.data.registry import TASKS
from regard.models.attention_factory import build_attention
from regard.models.attention_spec import AttentionSpec, parse_attention
from regard.models.training.run_variant import build_model, run_variant
from regard.models.training.trainer import Trainer, Training

NAMES = (
    "additive",
    "uniform",
    "none",
    "mean",
    "dot+entmax15",
    "general+local_predictive",
    "additive heads=4",
    "additive hops=2 frozen",
    "dot features",
    "sparsemax frozen query=mean",
    "cosine query=learned",
    "sigmoid",
    "relu",
    "top_k=3",
    "dot+top_k=8 heads=4",
    "scaled_dot+entmax=1.3 frozen",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_back_as_it_was_said(name):
    assert str(parse_attention(name)) == name
    assert parse_attention(str(parse_attention(name))) == parse_attention(name)


def test_the_order_of_further_words_does_not_count():
    assert (
        parse_attention("additive frozen heads=2")
        == parse_attention("additive heads=2 frozen")
        == AttentionSpec(heads=2, frozen=True)
    )


@pytest.mark.parametrize(
    "name, told",
    [
        ("nonsense", "expected none, mean, a score"),
        ("dot+nonsense", "joined by"),
        ("dot heads=0", "1 or more"),
        ("dot heads=two", "is unknown"),
        ("dot wide", "is unknown"),
        ("none heads=2", "is no attention"),
        ("dot query=meen", "did you mean mean"),
        ("dot heads=2 hops=2", "use one"),
        ("cosine features", "additive"),
        ("top_k", "top_k=8"),
        ("top_k=0", "top_k=8"),
        ("dot+top_k=2.5", "top_k=8"),
        ("entmax=nothing", "above 1"),
        ("dot+uniform=3", "did you mean uniform"),
        ("topk=8", "Did you mean top_k"),
        ("", "expected none"),
        ("sparsmax", "Did you mean sparsemax"),
        ("dot+sparsmax", "Did you mean sparsemax"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_what_to_say(name, told):
    with pytest.raises(ValueError, match=told):
        parse_attention(name)


def test_mean_pooling_is_the_mean_of_what_is_real_and_has_no_parameters():
    features, lengths = torch.randn(2, 5, 3), torch.tensor([5, 2])
    part = build_attention("mean", 7, 3)
    found = part(torch.randn(2, 1, 7), features, over=Padding(lengths))
    assert list(part.parameters()) == []
    assert_close(found.out[:, 0], torch.stack([features[0].mean(0), features[1, :2].mean(0)]))
    assert_close(found.map.weights()[1, 0, 0], torch.tensor([0.5, 0.5, 0, 0, 0]))


@pytest.mark.parametrize("name", ["top_k=2", "dot+top_k=2 heads=3", "top_k=2 hops=2"])
def test_a_number_of_keys_is_what_every_row_keeps(name):
    torch.manual_seed(0)
    part = build_attention(name, 6, 6)
    weights = part(torch.randn(4, 1, 6), torch.randn(4, 5, 6)).map.weights()
    assert ((weights > 0).sum(-1) == 2).all()


@pytest.mark.parametrize("name", ["additive features", "general features", "dot features", "gaussian features"])
def test_weights_of_each_feature_sum_to_one_and_read_that_feature(name):
    query, features = torch.randn(2, 1, 4), torch.randn(2, 5, 4)
    found = build_attention(name, 4, 4)(query, features)
    weights = found.map.weights()[:, 0, :, 0]  # (B, F, m)
    assert_close(weights.sum(-1), torch.ones(2, 4))
    assert_close(found.out[:, 0], (weights * features.transpose(1, 2)).sum(-1))


def test_frozen_attention_stays_as_it_was_drawn_while_the_rest_learns():
    experiment = TASKS["retrieval"](small=True)
    task = experiment.load(0)
    task.train = task.train[:128]
    first = build_model(experiment, task, "additive frozen", 3).state_dict()
    trainer = Trainer(Training(epochs=1, batch=64))
    last = run_variant(experiment, task, "additive frozen", 3, trainer).model.state_dict()
    moved = {name.partition(".")[0] for name in first if not torch.equal(first[name], last[name])}
    assert moved == {"features", "query", "output"}  # the question is read from the input, and so it learns


@pytest.mark.parametrize("query", ["learned", "mean"])
def test_another_question_can_be_put_into_a_task(query):
    experiment = TASKS["retrieval"](small=True)
    task = experiment.load(0)
    batch = collate(task.test[:4])
    answer = build_model(experiment, task, f"additive query={query}", 0)(batch)
    other = build_model(experiment, task, "additive", 0)(batch)
    assert answer.out.shape == other.out.shape
    asked = batch.second.clone()
    batch.second = (batch.second + 1) % 16
    again = build_model(experiment, task, f"additive query={query}", 0)(batch)
    assert torch.equal(again.out, answer.out)  # what the task asks is not heard any more
    assert not torch.equal(asked, batch.second)


def test_a_decoder_keeps_its_own_question_and_nothing_is_frozen_where_nothing_is_drawn():
    cipher, retrieval = (TASKS[name](small=True) for name in ("cipher", "retrieval"))
    with pytest.raises(ValueError, match="leave out query="):
        build_model(cipher, cipher.load(0), "additive query=mean", 0)
    with pytest.raises(ValueError, match="nothing to freeze"):
        build_model(retrieval, retrieval.load(0), "dot frozen", 0)


@pytest.mark.parametrize("name", ["retrieval", "motifs"])
def test_scores_of_instances_have_the_order_of_the_test_part_and_their_mean_is_the_number(name):
    experiment = TASKS[name](small=True)
    task = experiment.load(0)
    task.test = task.test[:40]
    model = build_model(experiment, task, "additive", 0)
    found = experiment.measure(model, task, "cpu")
    alone = []
    for one in task.test:
        batch = collate([one])
        alone.append(float(model(batch).out.argmax(-1) == batch.target))
    assert found.scores["accuracy"] == alone
    assert found.numbers["accuracy"] == pytest.approx(sum(alone) / len(alone))


def test_other_names_of_the_field_are_the_same_specification():
    assert parse_attention("bahdanau") == parse_attention("additive")
    assert parse_attention("luong+gumbel_softmax heads=4") == parse_attention("general+gumbel heads=4")
    assert str(parse_attention("multiplicative")) == "general"
