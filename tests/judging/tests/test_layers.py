"""Every layer in turn, all at once, and units taken away in two ways."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tests.judging.adapters.test_adapter import bert, recurrent
from tests.judging.adapters.test_graph_adapter import judged as graph
from tests.judging.built_models import built

from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.attention_selector import AttentionSelector
from regard.judging.adapters.inputs import NotApplicable
from regard.judging.artifacts import collect_artifacts
from regard.judging.attribution.gradients import gradient
from regard.judging.attribution.importance import attention, leave_one_out
from regard.judging.tests.adversarial import adversary
from regard.judging.tests.correlation import kendall
from regard.judging.tests.faithfulness import erased
from regard.judging.tests.layers import adversary_of_all_layers, layers, removals, selectors

pytest.importorskip("scipy")


def test_another_look_leaves_the_adapter_as_it_was():
    adapter = bert()
    first = adapter.with_selector(AttentionSelector(sites="*.0.*"))
    assert len(adapter.sites) == 2 and len(first.sites) == 1 and adapter.selector == AttentionSelector()
    inputs = adapter.inputs([0])
    assert torch.equal(first.attention(inputs), bert(selector=AttentionSelector(layer=0)).attention(inputs))
    assert not torch.equal(first.attention(inputs), adapter.attention(inputs))


def test_each_layer_in_turn_is_what_its_own_selector_says():
    adapter = bert()
    assert list(selectors(adapter)) == ["layer 0", "layer 1", "mean of layers", "rollout of layers"]
    with collect_artifacts() as evidence:
        found = {one.name: one for one in layers(adapter)}
    assert len(found) == 16 and next(one.title for one in evidence) == "Tau of each layer and gradient"
    for name, selector in selectors(adapter).items():
        own = bert(selector=selector)
        for column, what in enumerate(("comprehensiveness", "sufficiency")):
            expected = np.nanmean(erased(own, attention)[:, column])
            assert found[f"{what} of {name}"].value == pytest.approx(expected, abs=1e-6)
        for other in (gradient, leave_one_out):
            tau = []
            for place in range(2):
                inputs = adapter.inputs([place])
                units = inputs.units[0]
                tau.append(
                    kendall(own.attention(inputs)[0][units].numpy(), other(adapter, inputs)[0][units].numpy())[0]
                )
            called = f"tau of {name} and {'gradient' if other is gradient else 'leave one out'}"
            assert found[called].value == pytest.approx(np.nanmean(tau))  # the second text has two units: undefined
            assert found[called].undefined == 1


def test_the_adversary_of_all_layers_moves_every_layer():
    found = adversary_of_all_layers(bert(), starts=1, steps=3)
    assert [one.name for one in found] == [f"{one.name}, all layers at once" for one in adversary(bert(), steps=0)]
    together = adversary(bert(selector=AttentionSelector(layer="mean")), starts=1, steps=3, rate=0.1)
    assert [one.value for one in found] == [one.value for one in together]
    last = adversary(bert(), starts=1, steps=3, rate=0.1)
    assert found[0].baselines["limit"] != last[0].baselines["limit"]


def test_units_are_masked_and_beside_it_deleted():
    found = {one.name: one for one in removals(bert())}
    for how, other in (("mask", "delete"), ("delete", "mask")):
        table = erased(bert(removal=how), attention)
        for column, what in enumerate(("comprehensiveness", "sufficiency")):
            one = found[f"{what} of attention by {how}"]
            assert one.value == pytest.approx(table[:, column].mean(), abs=1e-6)
            assert one.baselines[f"by {other}"] == pytest.approx(found[f"{what} of attention by {other}"].value)
    assert (
        found["comprehensiveness of attention by mask"].value != found["comprehensiveness of attention by delete"].value
    )


@pytest.mark.parametrize("test", [layers, adversary_of_all_layers, removals])
def test_where_it_has_no_meaning_it_is_left_out(test):
    with pytest.raises(NotApplicable):
        test(recurrent())
    with pytest.raises(NotApplicable, match="edges"):
        test(graph()[0])


def test_a_model_that_pools_can_be_masked_but_has_one_layer():
    model, some, _ = built("bottleneck")
    adapter = Adapter(model, some[:6])
    by_mask, by_deletion = (erased(adapter.removing(how), attention) for how in ("mask", "delete"))
    assert_allclose(by_mask, by_deletion, atol=1e-6)  # it knows no places: a hole is as good as none
    with pytest.raises(NotApplicable, match="one attention layer"):
        layers(adapter)
    with pytest.raises(ValueError, match="only then"):
        adapter.removing("blank")
