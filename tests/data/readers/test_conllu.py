"""Parsed sentences are read, and what is damaged is told by its line."""

import pytest

from regard.data.readers.conllu import read_conllu


def line(number, word, governor):
    return "\t".join([number, word, "_", "_", "_", "_", governor, "dep", "_", "_"])


def test_words_have_the_places_of_their_governors(tmp_path):
    file = tmp_path / "a.conllu"
    rows = ["# text", line("1-2", "don't", "_"), line("1", "do", "3"), line("2", "n't", "3"), line("3", "go", "0"), ""]
    file.write_text("\n".join([*rows, line("1", "Yes", "0")]))
    assert read_conllu(file) == [(["do", "n't", "go"], [2, 2, -1]), (["Yes"], [-1])]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["1 do"], "line 1: 1 columns"),
        ([line("1", "do", "x")], "line 1: word '1' with governor 'x'"),
        ([line("2", "do", "0")], "expected word 1"),
        ([line("1", "do", "7")], "governor 7, and there are 1 words"),
        (["# nothing"], "no sentence"),
    ],
)
def test_damage_is_told_by_its_line(tmp_path, rows, says):
    file = tmp_path / "a.conllu"
    file.write_text("\n".join(rows))
    with pytest.raises(ValueError, match=says):
        read_conllu(file)
