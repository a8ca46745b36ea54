"""The part of a model before a site is run once, and nothing else changes."""

import pytest
import torch
from tests.judging.adapters.test_adapter import bert, recurrent
from torch import nn
from torch.testing import assert_close

import regard
from regard.interventions import Uniform
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.prefix_cache import remembered
from regard.models.builders import text_classifier


class Counted:
    """How often a module ran."""

    def __init__(self, module: nn.Module):
        self.times, self.forward, self.module = 0, module.forward, module
        module.forward = self  # type: ignore[method-assign, assignment]

    def __call__(self, *given, **named):
        self.times += 1
        return self.forward(*given, **named)


@pytest.mark.parametrize("make", [recurrent, bert])
def test_what_follows_the_site_hears_the_same(make):
    adapter = make()
    inputs, site = adapter.inputs([0, 1]), adapter.judged[0]
    plain, even = adapter.predict(inputs), adapter.predict(inputs, {site: Uniform()})
    with remembered(adapter.model, [site], lambda: adapter.logits(inputs)):
        again, changed = adapter.predict(inputs), adapter.predict(inputs, {site: Uniform()})
    assert torch.equal(again, plain)
    assert_close(changed, even, atol=1e-9, rtol=1e-9)
    assert (even - plain).abs().max() > 1e-6
    other = adapter.inputs([1])
    assert_close(adapter.predict(other), plain[1:], atol=1e-6, rtol=1e-5)  # nothing is remembered afterwards


def test_the_encoder_does_not_run_in_the_block():
    adapter = recurrent()
    inputs, counted = adapter.inputs([0, 1]), Counted(adapter.model.features.layers[0])
    with remembered(adapter.model, adapter.judged, lambda: adapter.logits(inputs)):
        before = counted.times
        for _ in range(3):
            adapter.predict(inputs)
        assert counted.times == before
    adapter.predict(inputs)
    assert counted.times == before + 1


def test_an_own_forward_of_a_module_is_put_back():
    adapter = recurrent()
    inputs, counted = adapter.inputs([0]), Counted(adapter.model.features)
    with remembered(adapter.model, adapter.judged, lambda: adapter.logits(inputs)):
        assert adapter.model.features.forward is not counted
    assert adapter.model.features.forward is counted


class Drawing(nn.Module):
    """Its encoder draws, also when it is judged."""

    def __init__(self):
        super().__init__()
        self.inner = text_classifier(20, 2, dim=4, width=3)

    def forward(self, batch):
        self.inner.features.before.table.weight.data.add_(torch.randn(20, 4))
        return self.inner(batch)


def test_a_model_that_draws_is_run_as_a_whole():
    adapter = Adapter(Drawing(), recurrent().instances)
    inputs, counted = adapter.inputs([0]), Counted(adapter.model.inner.features.layers[0])
    with remembered(adapter.model, adapter.judged, lambda: adapter.logits(inputs)):
        before = counted.times
        with torch.no_grad(), regard.record(adapter.model):
            adapter.logits(inputs)
        assert counted.times == before + 1
