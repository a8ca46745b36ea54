"""Long reviews: vectors of words read window by window, and readers of planted reviews whose reason is one word."""

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("lightning")
pytest.importorskip("transformers")

from tests import small_models
from tests.judging.progress_recorder import ProgressRecorder

from regard.lab.data.movies import Review
from regard.lab.human_agreement.review_model import ReviewTraining, adapter_of, examples, reader
from regard.lab.human_agreement.reviews import bag_accuracy, judge_reviews
from regard.lab.human_agreement.vector_cache import vectors_of
from regard.lab.human_agreement.word_encoder import Encoder, first_layers
from regard.models.training.trainer import Training

FILLER, GOOD, BAD = ("a", "sat", ".", "<", "/", ">"), "cat", "script"


@pytest.fixture(scope="module")
def encoder():
    return Encoder(small_models.model(), small_models.tokenizer(), layer=1, window=8)


def planted(count, seed=0, words=14):
    """The label is said by one word, and that word is marked."""
    draw = np.random.default_rng(seed)
    made = []
    for place in range(count):
        text = draw.choice(FILLER, words).astype(object)
        at = int(draw.integers(words))
        text[at] = GOOD if place % 2 else BAD
        made.append(Review(tuple(text), place % 2, np.arange(words) == at, exhaustive=True))
    return made


def test_a_short_text_is_read_as_the_model_reads_it(encoder):
    model, tokenizer = small_models.model(), small_models.tokenizer()
    text = ("a", "cats", "sat")
    (found,) = encoder([text])
    with torch.no_grad():
        states = model(**tokenizer(["a cats sat"], return_tensors="pt"), output_hidden_states=True).hidden_states[1][0]
    assert torch.allclose(found, torch.stack([states[1], states[2:4].mean(0), states[4]]), atol=1e-5)


def test_a_long_text_is_the_windows_that_it_is_cut_into(encoder):
    text = ("a", "cats", "sat", ".", "cat", "cats", "cats", "a")
    cuts = list(encoder.windows(text))
    assert [len(pieces) for _, pieces in cuts] == [6, 5]  # a word is never torn apart, and six pieces fit
    parts = encoder([text[:5], text[5:]])
    assert torch.allclose(encoder([text, ("a",)])[0], torch.cat(parts), atol=1e-5)
    assert encoder([()])[0].shape == (0, 16)


def test_the_layers_that_are_not_needed_are_left_out_and_the_model_is_as_it_was():
    model = small_models.model()
    short = first_layers(model, 1)
    assert (len(short.encoder.layer), len(model.encoder.layer), model.config.num_hidden_layers) == (1, 2, 2)
    with pytest.raises(ValueError, match="2 layers, expected 0 to 2"):
        first_layers(model, 3)
    with pytest.raises(ValueError, match="no encoder"):
        first_layers(torch.nn.Linear(2, 2), 1)


def test_vectors_are_made_once_and_refused_for_other_texts(encoder, tmp_path):
    texts = [("a", "cat"), ("sat",)]
    first = vectors_of(encoder, texts, "train", tmp_path)
    again = vectors_of(Unreadable(encoder.dim), texts, "train", tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert torch.allclose(first[0].float(), encoder(texts)[0], atol=1e-2)
    with pytest.raises(ValueError, match="computed from other texts"):
        vectors_of(encoder, [("a", "cat", "sat", ".")], "train", tmp_path)


class Unreadable:
    def __init__(self, dim):
        self.dim = dim


def test_what_is_judged_is_the_reader_and_words_are_read_anew_when_some_are_gone(encoder):
    reviews = planted(3)
    data = examples(reviews, [x.half() for x in encoder([one.words for one in reviews])])
    torch.manual_seed(0)
    task = reader(encoder.dim).eval()
    adapter = adapter_of(encoder, task, reviews, [one.inputs for one in data], size=2)
    inputs = adapter.inputs([0, 1, 2])
    from regard.data.batch import collate

    answer = task(collate(data))
    assert torch.allclose(adapter.logits(inputs), answer.out, atol=1e-5)
    assert torch.allclose(adapter.attention(inputs), answer.weights()[:, 0, 0].double(), atol=1e-6)
    gone = torch.zeros_like(inputs.real)
    gone[:, 3] = True
    rest = [tuple(word for at, word in enumerate(one.words) if at != 3) for one in reviews]
    left = [Review(text, one.label, np.delete(one.marks, 3)) for text, one in zip(rest, reviews, strict=True)]
    by_hand = task(collate(examples(left, encoder(rest)))).out.double().softmax(-1)
    assert torch.allclose(adapter.predict_without(inputs, gone), by_hand, atol=1e-5)


def test_a_reader_taught_where_to_look_looks_there(tmp_path):
    encoder = Encoder(small_models.model(), small_models.tokenizer(), layer=0, window=8)  # words as they stand
    reviews = {"train": planted(60), "val": planted(20, 1), "test": planted(20, 2)}
    how = ReviewTraining(training=Training(epochs=12, batch=10, rate=2e-2, patience=12))
    given = {"supervise": (0.0, 1.0), "seeds": 2, "how": how, "erase": 10, "resamples": 50, "out": tmp_path}
    found = judge_reviews(encoder, reviews, **given, on_progress=(progress := ProgressRecorder()))
    assert progress.fills_one_bar(of=60)  # reviews whose words become vectors
    assert progress.fills_one_bar(of=4)  # two readers of two seeds each
    assert progress.fills_one_bar(of=20, about="erased")  # ten reviews, read by two
    by_name = {one.name: one for one in found}
    taught = by_name["AUPRC, taught where to look (weight 1)"]
    assert taught.value > 0.95 and taught.against("random") == "not significantly different"  # two seeds show nothing
    assert taught.value >= by_name["AUPRC, not taught where to look"].value
    assert taught.baselines["BERT, published"] == 0.417
    assert by_name["accuracy, taught where to look (weight 1)"].value > 0.9
    assert by_name["accuracy, taught where to look (weight 1)"].n == 20
    needed = by_name["comprehensiveness, taught where to look (weight 1)"]
    assert needed.n == 10 and needed.against("random") == "better"
    again = judge_reviews(encoder, reviews, **given)  # from the checkpoints
    assert [one.value for one in again] == [one.value for one in found]


def test_a_bag_of_words_judges_planted_reviews():
    assert bag_accuracy(planted(60), planted(20, 2)) == 1.0


def test_the_reader_that_was_not_taught_comes_first(encoder):
    with pytest.raises(ValueError, match="expected 0 first"):
        judge_reviews(encoder, {"train": [], "val": [], "test": []}, supervise=(1.0,))
