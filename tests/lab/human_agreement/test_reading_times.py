"""Reading times: what words receive, read off a small model a second way, and readers whose answer is planted."""

import numpy as np
import pytest
import torch

pytest.importorskip("scipy")
pytest.importorskip("transformers")

from tests import small_models

from regard.data.readers.reading_times import Reading
from regard.judging.plausibility.fixations import partial_rank_correlation, rank_correlation
from regard.lab.human_agreement.reading_times import PUBLISHED, bare, judge_reading, received, trivial_weights
from regard.lab.human_agreement.subwords import cut

TEXTS = [("a", "cats", "sat", "."), ("cat", "sats"), ("a", "cat", "sat", "a", "cats")]


def readings(share=None):
    return [Reading(text, np.arange(1.0, len(text) + 1) if share is None else share[i]) for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def small():
    return small_models.model(attn_implementation="eager"), small_models.tokenizer()


def columns_by_hand(model, tokenizer, text, layer):
    """One sentence alone, piece by piece: nothing of the code that is tested."""
    pieces, owner = [2], [None]
    for place, word in enumerate(text):
        some = tokenizer(word, add_special_tokens=False)["input_ids"]
        pieces, owner = pieces + some, owner + [place] * len(some)
    pieces, owner = [*pieces, 3], [*owner, None]
    with torch.no_grad():
        weights = model(input_ids=torch.tensor([pieces]), output_attentions=True).attentions[layer][0].mean(0)
    found = np.zeros(len(text))
    for i, giver in enumerate(owner):
        for j, taker in enumerate(owner):
            if giver is not None and taker is not None:
                found[taker] += float(weights[i, j])
    return found


def test_a_word_receives_the_weights_of_all_words_on_its_pieces(small):
    model, tokenizer = small
    found = received(model, tokenizer, readings(), size=3)
    for layer in (0, 1):
        for text, values in zip(TEXTS, found[f"layer {layer + 1}"], strict=True):
            assert values == pytest.approx(columns_by_hand(model, tokenizer, text, layer), rel=1e-4)
    for each in zip(*(found[name] for name in ("layer 1", "layer 2", "mean of layers")), strict=True):
        assert each[2] == pytest.approx((each[0] + each[1]) / 2, rel=1e-5)


def test_the_mean_over_pieces_is_the_sum_over_their_number(small):
    model, tokenizer = small
    found = received(model, tokenizer, readings(), size=2)
    for text, total, mean in zip(TEXTS, found["rollout"], found["rollout, mean of pieces"], strict=True):
        pieces = [len(tokenizer(word, add_special_tokens=False)["input_ids"]) for word in text]
        assert max(pieces) == 2  # cat ##s
        assert mean * pieces == pytest.approx(total)


def test_the_published_recipe_takes_the_softmax_before_pieces_are_added_up(small):
    model, tokenizer = small
    found = received(model, tokenizer, readings(), size=2)
    pieces = [len(tokenizer(word, add_special_tokens=False)["input_ids"]) for word in TEXTS[0]]
    by_piece, as_published = found["layer 2"][0], found["as published"][0]
    for count, plain, softmax in zip(pieces, by_piece, as_published, strict=True):
        if count == 1:
            assert np.log(softmax) == pytest.approx(plain, rel=1e-4)
        else:  # e^a + e^b, not e^(a + b)
            assert softmax >= count * np.exp(plain / count) - 1e-6


def test_saliency_does_not_depend_on_who_shares_a_batch(small):
    model, tokenizer = small
    alone, together = (received(model, tokenizer, readings(), size) for size in (1, 3))
    for name in alone:
        for one, other in zip(alone[name], together[name], strict=True):
            assert one == pytest.approx(other, rel=1e-3, abs=1e-6), name


def test_readers_who_read_as_the_model_looks_correlate_fully(small):
    model, tokenizer = small
    share = received(model, tokenizer, readings())["layer 2"]
    found = {
        one.name: one for one in judge_reading(model, tokenizer, readings(share), resamples=20, published=PUBLISHED)
    }
    assert found["layer 2"].value == pytest.approx(1.0)
    assert found["layer 2"].n == 3
    assert found["layer 1"].value < 1.0
    assert found["layer 2"].baselines["BERT, published"] == 0.183
    assert found["layer 2, word length known"].undefined == 1  # two words tell nothing of a third map


def test_words_that_are_read_by_their_length_are_told_by_length_alone():
    texts = [("a", "novel", "to", "hold", "intently")] * 2
    trivial = trivial_weights(texts)
    human = trivial["word length"][0] * 0.1
    assert rank_correlation(trivial["word length"][0], human) == pytest.approx(1.0)
    assert trivial["word rarity"][0].tolist() == [-2.0] * 5
    assert [bare(word) for word in ("“Styles,”", "AFFAIR.", "--")] == ["styles", "affair", "--"]


def test_a_partial_correlation_is_that_of_what_the_known_ranks_leave():
    draw = np.random.default_rng(0)
    known = draw.permutation(30).astype(float)
    weights, human = known + 9 * draw.random(30), known + 9 * draw.random(30)
    from scipy.stats import rankdata

    rest = []
    for x in (weights, human):
        ranks = rankdata(x)
        fit = np.polynomial.Polynomial.fit(rankdata(known), ranks, 1)
        rest.append(ranks - fit(rankdata(known)))
    assert partial_rank_correlation(weights, human, known) == pytest.approx(np.corrcoef(*rest)[0, 1])
    assert np.isnan(partial_rank_correlation(known, human, known))  # nothing is left
    assert np.isnan(partial_rank_correlation([1, 2, 3], [1, 3, 2], [2, 1, 3]))


def test_a_text_that_is_too_long_is_refused(small):
    model, tokenizer = small
    with pytest.raises(ValueError, match="more than the 12 that the model reads"):
        received(model, tokenizer, [Reading(("cats",) * 8, np.ones(8))])
    with pytest.raises(ValueError, match="is empty"):
        judge_reading(model, tokenizer, [])
    assert [part.places for part in cut(tokenizer, TEXTS, 2)] == [[2, 0], [1]]
