"""Every way of writing attention is recorded right or reported, and what is no attention is not called so."""

import warnings

import pytest
from tests.recording.spellings.adversaries import ADVERSARIES
from tests.recording.spellings.kernels import KERNELS
from tests.recording.spellings.normalisations import NORMALISATIONS
from tests.recording.spellings.not_attention import NOT_ATTENTION
from tests.recording.spellings.outcome import outcome
from tests.recording.spellings.passages import PASSAGES
from tests.recording.spellings.patterns import PATTERNS
from tests.recording.spellings.products import PRODUCTS
from tests.recording.spellings.published_forms import PUBLISHED

ALL = [*KERNELS, *PRODUCTS, *NORMALISATIONS, *PASSAGES, *PATTERNS, *NOT_ATTENTION, *ADVERSARIES, *PUBLISHED]


def test_there_are_many_and_no_two_share_a_name():
    assert len({spelling.name for spelling in ALL}) == len(ALL) >= 120


@pytest.mark.parametrize("spelling", ALL, ids=lambda spelling: spelling.name)
def test_a_spelling_is_recorded_as_it_should(spelling):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = outcome(spelling)
    assert found.kind in spelling.accepted, found
