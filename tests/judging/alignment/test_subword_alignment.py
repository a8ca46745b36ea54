"""Gold links of words for a translator that writes pieces of them."""

import pytest
import torch

from regard.judging.alignment.subword_alignment import pieced
from regard.judging.suite import all_tests, run
from regard.judging.tests.translation import Translator
from regard.lab.data.multi30k import pairs
from regard.lab.data.word_alignments import AlignedPair
from regard.models.builders import translator

for name in ("tokenizers", "scipy"):
    pytest.importorskip(name)

LINES = [("the cat sees a dog", "le chat voit un chien"), ("a dog sees the cats", "un chien voit les chats")]
SURE = frozenset({(0, 0), (1, 1), (2, 2)})
GOLD = [AlignedPair(("the", "catsee", "§"), ("le", "chatvoit", "chien"), SURE, SURE | {(0, 1)})]


@pytest.fixture(scope="module")
def task():
    return pairs("small", LINES, LINES, LINES, pieces=40)


def test_pieces_know_their_words_and_weights_are_summed_back_to_them(task):
    one = pieced(GOLD, task)[0]
    assert one.source.unique().tolist() == [0, 1, 2] and len(one.source) == one.example.length > 3
    assert len(one.target) == len(one.example.target) - 1 > 3
    w = torch.rand(len(one.target), len(one.source), dtype=torch.float64)
    found = one.by_word(w)
    for t in range(3):
        for s in range(3):
            rows, columns = (one.target == t).nonzero()[:, 0], (one.source == s).nonzero()[:, 0]
            assert found[t, s] == pytest.approx(float(w[rows][:, columns].sum(1).mean()))


def test_whole_words_are_left_as_they_are(task):
    words = pairs("words", LINES * 2, LINES, LINES)
    one = pieced([AlignedPair(("the", "cat"), ("le", "chat"), SURE, SURE)], words)[0]
    w = torch.rand(2, 2)
    assert torch.equal(one.by_word(w), w)


def test_possible_links_are_allowed_and_sure_ones_are_wanted(task):
    made = pieced(GOLD, task)
    torch.manual_seed(0)
    model = translator(len(task.words), len(task.target_words), dim=8, width=8).eval()
    adapter = Translator(
        model, [one.example for one in made], words=task.words, target_words=task.target_words, pieced=made
    )
    test = next(one for one in all_tests() if one.name == "alignment")
    judged = run(test, adapter)
    assert not judged.left_out and judged.findings[0].baselines["diagonal"] == 0  # the diagonal is the gold here
    other = Translator(
        model,
        [one.example for one in made],
        words=task.words,
        target_words=task.target_words,
        pieced=pieced([AlignedPair(GOLD[0].source, GOLD[0].target, SURE, SURE)], task),
    )
    assert [str(x) for x in adapter.content(0)] != [str(x) for x in other.content(0)]
