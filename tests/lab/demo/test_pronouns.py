"""What "it" attends to: pairs of sentences in which one word turns its meaning."""

import pytest
import torch

pytest.importorskip("transformers")

from regard.lab.demo import paragraph, pronouns, pronouns_section

pytestmark = pytest.mark.skipif(paragraph.missing() is not None, reason="MiniLM is not installed")


@pytest.fixture(scope="module")
def results():
    return pronouns.study(*paragraph.load())


def planted(weights: torch.Tensor, results):
    return pronouns.PronounResults(weights, results.shown)


def test_every_word_that_is_compared_is_one_token():
    _, tokenizer = paragraph.load()
    for text, ends, nouns in pronouns.PAIRS:
        for end in ends:
            tokens = tokenizer.tokenize(text.format(end))
            assert all(tokens.count(word) == 1 for word in ("it", *nouns)), text


def test_weights_are_those_of_the_models_eager_attention(results):
    model, tokenizer = paragraph.load()
    given = tokenizer(pronouns.PAIRS[0][0].format("wide"), return_tensors="pt")
    tokens = tokenizer.convert_ids_to_tokens(given["input_ids"][0])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = torch.stack(model(**given, output_attentions=True).attentions)[:, 0]
    expected = maps[:, :, tokens.index("it")][..., [tokens.index("animal"), tokens.index("street")]]
    torch.testing.assert_close(results.weights[0, 1], expected.permute(2, 0, 1), atol=1e-5, rtol=1e-4)


def test_a_pair_counts_only_where_both_sentences_are_right(results):
    weights = torch.zeros(4, 2, 2, 1, 2)
    weights[:, 0, 0, 0, 0] = weights[:, 1, 1, 0, 0] = 1.0  # head 0 follows the meaning everywhere
    weights[:, :, 0, 0, 1] = 1.0  # head 1 always takes the first noun
    assert planted(weights, results).right().tolist() == [[4, 0]]


def test_the_answer_follows_the_count(results):
    site, head = results.head
    always = torch.zeros_like(results.weights)
    always[:, 0, 0], always[:, 1, 1] = 1.0, 1.0
    assert pronouns_section.verdict(planted(always, results)).startswith("Often: ")
    never = torch.zeros_like(results.weights)
    never[:, :, 0] = 1.0
    said = pronouns_section.verdict(planted(never, results))
    assert said.startswith("No: ") and "still gives the animal 1.00" in said and "in 0;" in said
    assert (site, head) == (5, 11)
