"""A sample of the zoo; all of it is `make test-zoo`."""

import pytest
import torch
from tests.sampling import mostly_slow
from tests.zoo import packages
from tests.zoo.measure import measure

pytest.importorskip("transformers")


SAMPLE = ["bert", "llama", "gpt2", "t5", "vit", "mixtral", "longformer"]


@pytest.mark.parametrize("name", mostly_slow(SAMPLE, "llama", "t5", "vit", "longformer"))
def test_an_architecture_is_recorded_exactly_or_reported(name):
    from tests.zoo import transformers_models

    model, inputs = transformers_models.build(name)
    for case, run in transformers_models.cases(model, inputs):
        result = measure(model, run)
        assert result.equal, case
        assert not result.wrong and not result.silent and not result.wolf, (case, result)
        assert result.told if name == "longformer" else result.exact, case  # its chunks overlap
        assert result.freeze is None or result.freeze < 1e-4, case
        assert not result.audit_failures, case


@pytest.mark.parametrize("name", packages.names("plain"))
def test_a_model_without_attention_has_no_map_and_misses_none(name):
    model, run = packages.build("plain", name)
    with torch.no_grad():
        result = measure(model, run)
    assert result.equal
    assert result.maps == result.entries == result.exact == result.told == 0, result
    assert not result.silent and not result.other_silent and not result.other_maps
