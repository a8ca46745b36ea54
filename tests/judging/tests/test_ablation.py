"""What a trained model's output owes to its attention."""

import pytest
import torch
from tests.judging.adapters.test_adapter import bert
from tests.judging.built_models import Bottleneck, built, strengths
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.interventions import Uniform
from regard.judging.adapters.adapter import Adapter
from regard.judging.adapters.inputs import Instance
from regard.judging.tests.ablation import ablation, by_head, by_layer, moves, value_zeroing


class TwoHeads(nn.Module):
    """Head 1 carries the answer three times as strongly as head 0, head 2 says nothing."""

    def __init__(self):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(strengths(4.0, 0.3)[:, None])
        self.register_buffer("loud", torch.tensor([0.25, 0.75, 0.0])[None, :, None, None])

    def forward(self, tokens, real):
        says = self.vectors(tokens)[:, None].expand(-1, 3, -1, -1)
        q = torch.ones_like(says[:, :, :1])
        out = F.scaled_dot_product_attention(q, says.abs(), says * self.loud, real[:, None, None], scale=1.0)
        return out.sum((1, 2, 3))


def test_uniform_weights_give_the_mean_of_the_values():
    model, some, _ = built("bottleneck")
    adapter = Adapter(model, some)
    found = moves(adapter, lambda inputs: {"*": Uniform()})
    for one, (far, _, before, after) in zip(some, found, strict=True):
        says = model.vectors.weight[one.tokens].detach()
        plain, even = (says[:, 1].softmax(0) * says[:, 0]).sum().sigmoid(), says[:, 0].mean().sigmoid()
        assert_close(float(far), float((plain - even).abs()), atol=1e-6, rtol=1e-5)
        assert [before, after] == [float((plain > 0.5) == one.label), float((even > 0.5) == one.label)]


def test_heads_are_ranked_by_what_the_output_loses():
    found = by_head(Adapter(TwoHeads(), built("bottleneck")[1]))
    assert [one.name.split(" of ")[0] for one in found[:3]] == ["head 1", "head 0", "head 2"]
    assert found[2].value == 0.0
    assert found[0].value > found[0].baselines["mean of the heads"] > 0
    assert found[0].standing[1] == "undefined"  # the largest of several is above their mean by being chosen
    assert "does not move" in found[2].says and "does not move" not in found[0].says


def test_layers_stand_in_the_order_in_which_they_run():
    adapter = bert()
    assert [one.name for one in by_layer(adapter)] == [f"uniform weights at {site}" for site in adapter.sites]


def test_the_value_of_the_top_unit_is_that_of_the_largest_weight():
    model = Bottleneck()
    adapter = Adapter(model, [Instance(torch.tensor([21, 1, 3])), Instance(torch.tensor([2, 27, 4]))])
    expected = []
    for one in adapter.instances:
        says, looked_at = model.vectors.weight[one.tokens].detach().unbind(-1)
        parts = looked_at.softmax(0) * says
        expected.append(float((parts.sum().sigmoid() - (parts.sum() - parts[looked_at.argmax()]).sigmoid()).abs()))
    found = value_zeroing(adapter)
    assert_close(found.value, sum(expected) / 2, atol=1e-6, rtol=1e-5)


def test_accuracy_is_told_only_where_there_are_labels():
    model, some, _ = built("bottleneck")
    names = [one.name for one in ablation(Adapter(model, some[:4]))]
    without = [one.name for one in ablation(Adapter(model, [Instance(one.tokens) for one in some[:4]]))]
    assert set(names) - set(without) == {"uniform weights: accuracy lost", "permuted weights: accuracy lost"}


@pytest.mark.parametrize("make", [bert, lambda: Adapter(TwoHeads(), built("leaky")[1][:5])], ids=["bert", "two heads"])
def test_a_seed_gives_the_same_bits(make):
    adapter = make()
    assert ablation(adapter, seed=3) == ablation(adapter, seed=3)
