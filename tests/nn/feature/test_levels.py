"""Attention-via-attention and hierarchical attention against plain loops, with empty sentences and three levels."""

import pytest
import torch
from tests.nn.unrolled import read
from torch import nn
from torch.testing import assert_close

from regard import Mask, Padding, Uniform
from regard.nn import AttentionViaAttention, HierarchicalAttention


def rows(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_words_help_to_ask_the_characters():
    made = AttentionViaAttention(3, 4, 2).double()
    query, words, chars = rows(2, 2, 3), rows(2, 5, 4), rows(2, 7, 2)
    lengths = torch.tensor([5, 3]), torch.tensor([4, 7])
    found = made(query, words, chars, *map(Padding, lengths))
    for item in range(2):
        for row in range(2):
            q = query[item, row]
            coarse = read(made.words.score, q, words[item, : lengths[0][item]])
            fine = read(made.chars.score, torch.cat([q, coarse]), chars[item, : lengths[1][item]])
            assert_close(found.out[item, row], torch.cat([coarse, fine]))


def test_characters_hear_of_the_words_only_through_what_was_read_there():
    made = AttentionViaAttention(3, 4, 2).double()
    query, words, chars = rows(2, 1, 3), rows(2, 5, 4).requires_grad_(), rows(2, 7, 2)
    heard = torch.autograd.grad(made(query, words, chars).out[..., 4:].square().sum(), words)[0]
    assert heard.abs().max() > 0
    with torch.no_grad():
        made.chars.score.query[..., 3:] = 0
    found = made(query, words, chars)
    assert torch.autograd.grad(found.out[..., 4:].square().sum(), words)[0].abs().max() == 0
    plain = read_all(made.chars.score, torch.cat([query, torch.zeros(2, 1, 4).double()], -1), chars)
    assert_close(found.out[..., 4:], plain)


def read_all(score, query, features):
    return torch.stack([torch.stack([read(score, q, f) for q in qs]) for qs, f in zip(query, features, strict=True)])


def test_a_document_is_its_sentences_and_a_sentence_its_words():
    made, words = HierarchicalAttention(4).double(), rows(2, 3, 5, 4)
    lengths = torch.tensor([[5, 2, 0], [1, 0, 0]])
    found = made(words, Padding(lengths))
    for item in range(2):
        sentences = [
            read(made.levels[0].score, None, words[item, s, :n]) for s, n in enumerate(lengths[item].tolist()) if n
        ]
        assert_close(found.out[item], read(made.levels[1].score, None, torch.stack(sentences)))
    assert found.maps["level_1"].shape == (2, 3, 1, 1, 5)
    assert found.maps["level_2"].weights()[:, 0, 0, 2].abs().max() == 0


def test_empty_sentences_change_nothing_wherever_they_stand():
    made, words = HierarchicalAttention(4).double(), rows(1, 2, 5, 4)
    garbage = torch.cat([rows(1, 1, 5, 4), words[:, :1], rows(1, 1, 5, 4), words[:, 1:]], 1)
    keep = torch.ones(1, 4, 1, 1, 5, dtype=torch.bool)
    keep[:, [0, 2]] = False
    assert_close(made(garbage, Mask(keep=keep)).out, made(words).out)


def test_an_empty_document_is_zero_with_finite_gradients():
    made, words = HierarchicalAttention(4).double(), rows(2, 3, 5, 4).requires_grad_()
    found = made(words, Padding(torch.tensor([[5, 2, 1], [0, 0, 0]])))
    assert found.out[1].abs().max() == 0
    found.out.sum().backward()
    assert words.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in made.parameters())


def test_without_scores_it_is_the_mean_of_means_and_not_of_words():
    made, words = HierarchicalAttention(4, align=Uniform()).double(), rows(1, 2, 5, 4)
    found = made(words, Padding(torch.tensor([[5, 1]]))).out[0]
    assert_close(found, (words[0, 0].mean(0) + words[0, 1, 0]) / 2)
    assert not torch.allclose(found, torch.cat([words[0, 0], words[0, 1, :1]]).mean(0))


def test_one_sentence_has_the_whole_weight():
    made, words = HierarchicalAttention(4).double(), rows(2, 1, 5, 4)
    assert_close(made(words).maps["level_2"].weights(), torch.ones(2, 1, 1, 1, dtype=torch.float64))


def test_levels_may_be_three():
    made, words = HierarchicalAttention(4, levels=3).double(), rows(2, 2, 3, 5, 4)
    lengths = torch.tensor([[[5, 2, 0], [3, 3, 3]], [[1, 0, 0], [0, 0, 0]]])
    found = made(words, Padding(lengths))
    two = HierarchicalAttention(4).double()
    two.levels.load_state_dict(made.levels[:2].state_dict())
    for item, count in enumerate((2, 1)):
        parts = two(words[item, :count], Padding(lengths[item, :count])).out
        assert_close(found.out[item], read(made.levels[2].score, None, parts))


class Doubled(nn.Module):
    """What stands between two levels: it is told which sentences are there."""

    def forward(self, x, keep):
        self.keep = keep
        return torch.cat([x, -x], -1)


def test_a_part_between_levels_sees_sentences_and_which_of_them_are_there():
    between = Doubled()
    made, words = HierarchicalAttention([4, 8], between=[between]).double(), rows(2, 3, 5, 4)
    found = made(words, Padding(torch.tensor([[5, 2, 0], [1, 0, 4]])))
    assert between.keep.tolist() == [[True, True, False], [True, False, True]]
    sentences = found.steps["level_1"].out[1, [0, 2], 0]
    assert_close(found.out[1], read(made.levels[1].score, None, torch.cat([sentences, -sentences], -1)))


def test_a_score_that_asks_gets_a_learned_query():
    made, words = HierarchicalAttention(4, score="additive").double(), rows(1, 2, 5, 4)
    sentences = torch.stack([read(made.levels[0].score, made.levels[0].query, s) for s in words[0]])
    assert_close(made(words).out[0], read(made.levels[1].score, made.levels[1].query, sentences))


def test_too_few_axes_are_refused():
    with pytest.raises(ValueError, match="a length for each of the 2 levels"):
        HierarchicalAttention(4)(torch.zeros(5, 4))
