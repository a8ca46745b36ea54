"""Weights that follow the place of a unit, and weights that follow what it is."""

import pytest
import torch
from torch.testing import assert_close

from regard.judging import Adapter, Instance, NotApplicable
from regard.judging.artifacts import Caution, collect_artifacts
from regard.judging.attribution.importance import position
from regard.judging.tests.places import places
from regard.lab.validation.built import built_models
from regard.lab.validation.models.no_reasons import ByPlace, LastHasAll
from regard.lab.validation.models.reasons import Bottleneck
from regard.lab.validation.words import texts


def share(model):
    with collect_artifacts() as evidence:
        (found,) = places(Adapter(model.eval(), texts(40)[0]))
    return found.value, any(isinstance(one, Caution) for one in evidence)


@pytest.mark.parametrize("model", [ByPlace, LastHasAll])
def test_weights_by_place_follow_from_the_place_counted_from_either_end(model):
    value, warned = share(model())
    assert value > 0.6 and warned


def test_weights_on_the_word_that_decides_do_not():
    value, warned = share(Bottleneck())
    assert value < 0.4 and not warned


def test_the_weights_of_a_text_are_no_part_of_what_its_places_foretell():
    tokens = [torch.tensor([1, 2, 25, 3]), torch.tensor([25, 1, 2, 3])]
    adapter = Adapter(Bottleneck().eval(), [Instance(one) for one in tokens])
    inputs = adapter.inputs([0, 1])
    weights = adapter.attention(inputs) * 4  # sum 1 over four units
    assert_close(position(adapter, inputs), weights[[1, 0]], atol=1e-6, rtol=1e-6)


def test_texts_of_another_length_and_special_tokens_have_places_of_units():
    special = torch.tensor([True, False, False])
    some = [Instance(torch.tensor([35, 25, 1]), special=special), Instance(torch.tensor([25, 1, 2]))]
    adapter = Adapter(Bottleneck().eval(), some)
    found = position(adapter, adapter.inputs([0, 1]))
    assert found[0, 0] == 0 and bool((found[0, 1:] > 0).all())
    # the third word of the longer text: alone there from the start, the last one from the end
    own = adapter.attention(adapter.inputs([0]))[0]
    assert float(found[1, 2]) == pytest.approx((1 + 2 * float(own[2] / own[1:].sum())) / 2)


def test_edges_have_no_place():
    adapter = next(one for one in built_models() if one.name == "decisive edge").adapter(4)
    with pytest.raises(NotApplicable, match="no position"):
        places(adapter)
    with pytest.raises(NotApplicable, match="no position"):
        position(adapter, adapter.inputs([0]))
