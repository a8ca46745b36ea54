"""A few of each attack, in every test run; `make attacks` has them all."""

import pytest
from tests.attacks import records, requests

pytest.importorskip("fastapi")


def test_damaged_files_of_every_format_are_refused_in_a_sentence_or_read():
    counts, through = records.attack(240, seed=1)
    assert not through and counts["refused"] > 100


def test_hostile_requests_get_no_secret_and_break_nothing():
    counts, through = requests.attack(60, seed=1)
    assert not through and sum(counts.values()) == 60
