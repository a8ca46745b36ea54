"""Numbers in sentences: 0 and all are said of nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.judging.wording import amount, loses, more, moves, percent, sentence, three_digits


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0%"), (1e-9, "less than 1%"), (0.004, "less than 1%"), (0.5, "50%"), (0.999, "more than 99%"), (1, "100%")],
)
def test_a_percentage_of_0_is_nothing_and_one_of_100_is_all(share, said):
    assert percent(share) == said


@given(st.floats(0, 1))
def test_no_share_but_0_and_1_is_called_so(share):
    assert (percent(share) == "0%") == (share == 0) and (percent(share) == "100%") == (share == 1)


@given(st.floats(-2, 2), st.integers(1, 4))
def test_what_is_not_0_never_reads_so_and_no_0_has_a_sign(value, digits):
    said = amount(value, digits)
    assert (said.strip("-0.") == "") == (value == 0) and (value != 0 or "-" not in said)


def test_three_digits_call_nothing_1_that_is_less():
    assert three_digits(0.9996) == "more than 0.999" and three_digits(1) == "1" and three_digits(0.99949) == "0.999"


def test_what_is_lost_less_than_nothing_is_gained():
    said = [loses(x) for x in (0.25, 0.0, -0.25, -1e-9)]
    assert said == [
        "loses 0.250 of probability",
        "loses no probability",
        "gains 0.250 of probability",
        "gains less than 0.001 of probability",
    ]
    assert [more(x) for x in (0.015, 0.0, -0.015)] == ["1.5% more", "as many", "1.5% fewer"]


def test_a_sentence_begins_with_a_capital_and_an_unbounded_figure_is_said_in_words():
    assert sentence(percent(1e-3) + " of it") == "Less than 1% of it"
    assert three_digits(math.inf) == "infinitely much"


def test_what_does_not_move_is_said_not_to_move():
    assert moves(0.0) == "does not move" and moves(1e-9) == "moves by less than 0.001"
    assert amount(None) == "an undefined share" and amount(math.inf) == "infinitely much"
