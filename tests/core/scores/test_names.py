"""Names stand for the form of a score without parameters."""

import pytest
import torch
from tests.core.mechanisms import inputs
from torch.testing import assert_close

from regard import attend, scores


@pytest.mark.parametrize("name", scores.NAMES)
def test_a_name_is_its_class_built_without_sizes_and_has_no_parameters(name: str) -> None:
    q, k, v = inputs()
    made = scores.NAMES[name]()
    assert list(made.parameters()) == []
    assert_close(attend(q, k, v, name).out, attend(q, k, v, made).out)
    assert scores.score_of(name) is scores.score_of(name)


@pytest.mark.parametrize("name", scores.NAMES)
def test_the_map_of_a_score_is_softmax_of_its_definition(name: str) -> None:
    q, k, v = inputs()
    s = scores.NAMES[name]()(q, k)
    assert_close(attend(q, k, v, name).map.weights(), torch.softmax(s, -1).detach())
