"""Task models: four parts, each replaceable; padding changes nothing; maps are what they looked with."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import regard
from regard.data import Example, collate, motifs, retrieval, two_relations
from regard.models import TaskModel, builders, features, output_heads, queries
from regard.models.attention_factory import build_attention
from regard.models.model_output import Answer
from regard.models.training.objectives import Classification, Ranking
from regard.models.training.trainer import Trainer, Training

WORDS, CLASSES, DIM = 20, 3, 8


def texts(lengths=(2, 5, 3)):
    return [Example(torch.randint(4, WORDS, (n,)), torch.tensor(i % CLASSES), id=i) for i, n in enumerate(lengths)]


def feature_models() -> dict[str, nn.Module]:
    words = features.Embedded(WORDS, DIM)
    return {
        "embedded": words,
        "convolved": features.Convolved(words, DIM, width=3, layers=2),
        "gru": features.Recurrent(words, DIM // 2),
        "lstm": features.Recurrent(words, DIM // 2, "lstm", layers=2),
        "marked": features.Recurrent(words, DIM // 2, "lstm", marks=True),
        "alone": features.Alone(words, DIM),
        "thinned": features.Recurrent(words, DIM // 2, layers=2, thin=2),
        "transformed": features.Transformed(words, heads=2, layers=2, dropout=0.0),
    }


ATTENTIONS = ("additive", "dot", "general", "uniform", "additive+sparsemax", "hard", "cosine+entmax15", "none")


@pytest.mark.parametrize("kind", feature_models())
def test_a_padded_batch_equals_its_items_with_garbage_in_the_padding(kind):
    examples = texts()
    model = (
        TaskModel(
            feature_models()[kind],
            queries.Learned(DIM),
            build_attention("additive", DIM, DIM),
            output_heads.Classes(DIM, CLASSES),
        )
        .double()
        .eval()
    )
    batch = collate(examples)
    garbage = batch.inputs.where(batch.real, torch.full_like(batch.inputs, WORDS - 1))
    together = model(replace(batch, inputs=garbage))
    for place, one in enumerate(examples):
        alone = model(collate([one]))
        assert_close(together.out[place], alone.out[0])
        n = alone.weights().shape[-1]
        assert_close(together.weights()[place, ..., :n], alone.weights()[0])
        assert not together.weights()[place, ..., n:].any()


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_any_attention_fits_any_classifier_and_learns(attention):
    model = builders.text_classifier(WORDS, CLASSES, attention, DIM, DIM // 2, dropout=0.0)
    batch = collate(texts())
    answer = model(batch)
    Classification()(answer, batch).backward()
    assert answer.out.shape == (3, CLASSES)
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())
    assert model.features.before.table.weight.grad.any()


def test_the_classifier_is_its_formula():
    """Second computation: an explicit loop over the words of each text."""
    model = builders.text_classifier(WORDS, CLASSES, "additive", DIM, DIM // 2, kind="gru", dropout=0.0).double().eval()
    examples = texts()
    found = model(collate(examples))
    score, question = model.attention.score, model.query.question[0]
    for place, one in enumerate(examples):
        states, _ = model.features.layers[0](model.features.before.table(one.inputs)[None])
        e = torch.stack(
            [
                (score.v[0] * torch.tanh(score.query[0] @ question + score.bias[0] + score.key[0] @ h)).sum()
                for h in states[0]
            ]
        )
        context = (e.softmax(0)[:, None] * states[0]).sum(0)
        assert_close(found.out[place], model.output.layers(context))


def test_without_attention_a_classifier_reads_the_last_states():
    model = builders.text_classifier(WORDS, CLASSES, "none", DIM, DIM // 2, kind="gru", dropout=0.0).eval()
    example = texts((4,))[0]
    _, last = model.features.layers[0](model.features.before.table(example.inputs)[None])
    found = model(collate([example]))
    assert_close(found.out, model.output.layers(last.transpose(0, 1).flatten(1)))
    with pytest.raises(ValueError, match="has no map"):
        found.weights()


def test_attention_of_a_task_model_is_recorded():
    model = builders.text_classifier(WORDS, CLASSES, "additive", DIM, DIM // 2).eval()
    with regard.record(model) as rec:
        found = model(collate(texts()))
    assert_close(rec.maps["attention"].weights(), found.weights())


def test_a_graph_of_a_batch_is_classified_as_if_it_were_alone():
    task = motifs(nodes=6, train=3, val=1, test=1)
    model = builders.graph_classifier(5, 2, dim=8, heads=2, dropout=0.0).double().eval()
    batch = collate(task.train)
    together = model(replace(batch, inputs=batch.inputs.double()))
    for place, one in enumerate(task.train):
        alone = collate([one])
        assert_close(together.out[place], model(replace(alone, inputs=alone.inputs.double())).out[0])


def test_a_graph_without_attention_is_read_without_its_edges():
    one = motifs(nodes=6, train=1, val=1, test=1).train[0]
    other = replace(one, edges=one.edges[:, :2])
    model = builders.graph_classifier(5, 2, "none", dim=8, heads=2).eval()
    assert_close(model(collate([one])).out, model(collate([other])).out)


def test_nodes_ask_along_their_edges():
    task, _ = two_relations(nodes=40)
    batch = collate([Example(task.x, task.y, edges=task.edge_index)])
    model = builders.node_classifier(3, 3, dim=8, heads=2).eval()
    found = model(batch)
    assert found.out.shape == (40, 3)
    weight = found.maps[0].edges()[0, 0]
    assert_close(torch.zeros(40).index_add(0, task.edge_index[1], weight), torch.ones(40))


def test_a_restored_image_is_what_its_patches_say_each_in_its_place():
    """Second computation: every patch by itself, put where it came from."""
    model = builders.image_restorer(8, patch=4, dim=8, heads=2).double().eval()
    image = torch.rand(1, 8, 8, dtype=torch.float64)
    found = model(collate([Example(image, image)]))
    values = model.features(collate([Example(image, image)])).values
    context = model.attention(values).out
    for place, (row, column) in enumerate(((0, 0), (0, 4), (4, 0), (4, 4))):
        patch = model.output.layers(torch.cat([values[0, place], context[0, place]])).reshape(4, 4)
        assert_close(found.out[0, 0, row : row + 4, column : column + 4], patch)


def test_patches_joined_again_are_the_image():
    from regard.models.features.patches import joined

    image = torch.arange(64.0).reshape(1, 1, 8, 8)
    assert_close(joined(nn.functional.unfold(image, 4, stride=4).transpose(1, 2), 8, 4), image)


@pytest.mark.parametrize(("attention", "solves"), [("additive", True), ("uniform", False)])
def test_only_attention_by_the_question_solves_retrieval(attention, solves):
    task = retrieval(pairs=4, keys=5, values=6, train=800, val=100, test=200)
    torch.manual_seed(1)
    model = builders.retriever(5, 6, attention)
    Trainer(Training(epochs=8, batch=64, rate=1e-2, patience=8)).fit(model, Classification(), task.train, task.val)
    batch = collate(task.test)
    right = (model.eval()(batch).out.argmax(-1) == batch.target).float().mean()
    assert right > 0.95 if solves else right < 0.6


@pytest.mark.parametrize("attention", ["bilinear", "trilinear"])
def test_two_texts_are_read_together_as_if_no_padding_were_there(attention):
    examples = [replace(one, second=torch.randint(4, WORDS, (n,))) for one, n in zip(texts(), (4, 1, 2), strict=True)]
    model = builders.pair_classifier(WORDS, CLASSES, attention, DIM, DIM // 2, dropout=0.0).double().eval()
    together = model(collate(examples))
    for place, one in enumerate(examples):
        alone = model(collate([one]))
        assert_close(together.out[place], alone.out[0])
        assert_close(together.maps[1].weights()[place, ..., : len(one.second)], alone.maps[1].weights()[0])
    swapped = replace(examples[0], second=examples[1].second)
    assert not torch.allclose(model(collate([swapped])).out[0], together.out[0])


def test_documents_are_read_sentence_by_sentence():
    """Second computation: each sentence alone, then the sentences in their order."""
    model = builders.document_classifier(WORDS, 2, dim=DIM, width=DIM // 2, dropout=0.0).double().eval()
    first = Example(torch.tensor([[4, 5, 6], [7, 8, 0]]), torch.tensor(0), parts=torch.tensor([3, 2]))
    second = Example(torch.tensor([[9, 0, 0, 0]]), torch.tensor(1), parts=torch.tensor([1]))
    found = model(collate([first, second]))
    reader = model.features
    contexts = []
    for words in ([4, 5, 6], [7, 8]):
        states, _ = reader.lower(reader.words.table(torch.tensor([words])))
        contexts.append(reader.attention(reader.question[None, None], states).out[0])
    values, _ = reader.upper(torch.cat(contexts)[None])
    context = model.attention(model.query.question[None], values).out
    assert_close(found.out[0], model.output.layers(context[0])[0])
    alone = model(collate([second]))
    assert_close(found.out[1], alone.out[0])
    from regard.lab.tasks.texts.documents import word_weights

    whole = word_weights(found, collate([first, second]))
    assert_close(whole.sum((1, 2)), torch.ones(2, dtype=torch.float64))
    assert not whole[0, 1, 2:].any() and not whole[1, 0, 1:].any()


def test_an_unknown_attention_is_refused_with_what_there_is():
    with pytest.raises(ValueError, match="general\\+local_predictive"):
        builders.text_classifier(WORDS, CLASSES, "telepathy")


def test_a_second_input_that_is_missing_is_named():
    with pytest.raises(ValueError, match="this batch has none"):
        builders.retriever(5, 4)(replace(collate(texts()), inputs=torch.zeros(3, 5, 2, dtype=torch.long)))


def test_marks_are_read_and_never_attended():
    """Second computation: start, words and end through the LSTM, its first and last state dropped."""
    model = features.Recurrent(features.Embedded(WORDS, DIM), DIM // 2, "lstm", marks=True).double()
    examples = texts()
    seen = model(collate(examples))
    for place, one in enumerate(examples):
        words = torch.cat([model.marks[:1], model.before.table(one.inputs), model.marks[1:]])
        states, _ = model.layers[0](words[None])
        assert_close(seen.values[place, : one.length], states[0, 1:-1])
    with pytest.raises(ValueError, match="thin=1"):
        features.Recurrent(features.Embedded(WORDS, DIM), 2, marks=True, thin=2)


def test_known_vectors_are_where_words_begin():
    known = torch.randn(WORDS, DIM)
    table = features.Embedded(WORDS, DIM, vectors=known).table.weight
    assert_close(table[1:], known[1:])
    assert not table[0].any()
    with pytest.raises(ValueError, match="one for each word"):
        features.Embedded(WORDS, DIM, vectors=known[1:])


def test_ranking_weighs_positive_examples_and_scores_all_pairs():
    from sklearn.metrics import roc_auc_score

    draw = torch.Generator().manual_seed(0)
    out, target = torch.randn(40, 2, generator=draw), torch.arange(40) % 3 == 0
    out[:4] = 0.0  # ties count half
    examples = [Example(torch.tensor([4]), one.long(), id=i) for i, one in enumerate(target)]
    answer, batch = Answer(out), collate(examples)
    right, pairs = Ranking().scores(answer, batch)["auc"]
    assert right / pairs == pytest.approx(roc_auc_score(target, (out[:, 1] - out[:, 0]).numpy()))
    losses = nn.functional.cross_entropy(out, target.long(), reduction="none")
    assert_close(Ranking(0.5)(answer, batch), losses[~target].sum() + 0.5 * losses[target].sum())
