"""The truth that is said of each model is checked: who has most weight, and whether the prediction goes with it."""

import numpy as np
import pytest
import torch

from regard.judging.statistics.divergence import tvd
from regard.judging.tests.permutation import moved
from regard.lab.validation.built import BuiltModel, add, built_models

COUNT = 16
TEXTS = [one for one in built_models() if one.name not in ("decisive edge", "decorative edges", "own features")]


def points(model, adapter):
    """The share of the instances whose unit of most weight is one that decides; of several equal ones the share."""

    def measure(inputs):
        weights = adapter.attention(inputs).masked_fill(~inputs.units, -1.0)
        top = weights >= weights.amax(-1, keepdim=True) - 1e-9
        return ((top & model.deciding(inputs)).sum(-1) / top.sum(-1)).tolist()

    return float(np.mean(adapter.each(measure)))


@pytest.mark.parametrize("model", built_models(), ids=lambda one: one.name)
def test_weights_are_a_reason_where_they_point_at_what_decides_and_the_output_goes_with_them(model):
    adapter = model.adapter(COUNT)
    depends = float(np.nanmedian(moved(adapter, times=10)[:, 0])) > 0.05
    assert (points(model, adapter) > 0.9 and depends) == model.faithful


@pytest.mark.parametrize("model", [one for one in TEXTS if one.name != "constant"], ids=lambda one: one.name)
def test_the_units_that_are_said_to_decide_do(model):
    adapter = model.adapter(COUNT)

    def measure(inputs):
        deciding = model.deciding(inputs)
        without, others = (adapter.predict_without(inputs, gone) for gone in (deciding, inputs.units & ~deciding))
        before = adapter.predict(inputs)
        return torch.stack([tvd(before, without), tvd(before, others)], -1).tolist()

    gone, left = np.nanmean(adapter.each(measure), axis=0)
    assert gone > left


def test_nothing_decides_in_a_constant_model():
    model = next(one for one in built_models() if one.name == "constant")
    adapter = model.adapter(4)
    said = torch.stack(adapter.each(lambda inputs: list(adapter.predict(inputs))))
    assert not model.deciding(adapter.inputs([0])).any() and bool((said == said[0]).all())


def test_at_least_twenty_models_of_which_neither_kind_is_rare():
    faithful = [one.faithful for one in built_models()]
    assert len(faithful) >= 20 and 0.3 < np.mean(faithful) < 0.7


def test_two_models_of_one_name_are_refused():
    one = built_models()[0]
    with pytest.raises(ValueError, match="already"):
        add(BuiltModel(one.name, one.adapter, True, one.deciding, "again"))
