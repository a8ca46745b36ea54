"""Pieces of words: the same lines give the same pieces and numbers in every process."""

from regard.data.bpe import CLOSE, SPECIAL, Pieces

LINES = [
    "a small dog runs over the grass .",
    "two men in hats look at the dog !",
    "why is the quick fox up ?",
    "jazz clubs have big bands ,",
    "Ein Mann fährt Rad ; groß & klein",
] * 3


def test_letters_that_end_a_word_are_numbered_in_their_order():
    """The trainer's own order is that of a hash table, another one in each process; merges depend on it."""
    pieces = Pieces(LINES, 200)
    ends = sorted({word[-1] + CLOSE for line in LINES for word in line.split()})
    numbers = pieces.vocabulary.encode(ends).tolist()
    assert len(ends) > 15 and numbers == list(range(len(SPECIAL), len(SPECIAL) + len(ends)))


def test_a_line_comes_back_from_its_pieces_and_none_of_them_is_special():
    pieces = Pieces(LINES, 120)
    for line in LINES:
        cut = pieces.split(line)
        assert "".join(cut).replace(CLOSE, " ").split() == line.split()
        assert not set(cut) & set(SPECIAL)
