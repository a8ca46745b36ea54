"""A language model in which any mechanism mixes the tokens."""

import pytest
import torch
from torch import nn

from regard.models.causal_lm import MIXERS, CausalLanguageModel


@pytest.mark.parametrize("name", MIXERS)
def test_no_token_sees_what_comes_after_it(name):
    torch.manual_seed(0)
    model = CausalLanguageModel(12, name, width=16, heads=2, layers=2, conv=3).double()
    nn.init.normal_(model.convs[0].weight, std=0.1)
    tokens = torch.randint(12, (2, 24))
    changed = tokens.clone()
    changed[:, 15:] = (changed[:, 15:] + 1) % 12
    torch.testing.assert_close(model(tokens)[:, :15], model(changed)[:, :15])


@pytest.mark.parametrize("name", MIXERS)
def test_every_parameter_of_a_mixer_learns(name):
    torch.manual_seed(0)
    model = CausalLanguageModel(12, name, width=16, heads=2, layers=1)
    model(torch.randint(12, (2, 24))).square().mean().backward()
    silent = [key for key, p in model.mixers.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert [key for key in silent if "indexer" not in key] == []  # a choice has no gradient; its teacher has one


def test_a_mixer_of_ones_own_takes_part():
    class Mean(nn.Module):
        def forward(self, x):
            return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]

    model = CausalLanguageModel(12, lambda width, heads, depth: Mean(), width=16, heads=2)
    assert model(torch.randint(12, (2, 5))).shape == (2, 5, 12)
    with pytest.raises(ValueError, match="expected one of rope"):
        CausalLanguageModel(12, "ropes")
