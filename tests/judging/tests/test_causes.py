"""A weight falls without the writer it is explained by, and not without random vectors of the same size."""

import pytest
import torch
from torch import nn

from regard.judging import Adapter, NotApplicable
from regard.judging.adapters.inputs import Instance
from regard.judging.tests.causes import causes
from regard.lab.validation.circuits.compiler import Compiled
from regard.lab.validation.circuits.programs import copy_first, induction

pytest.importorskip("scipy")


def judged(program, count=24, **options):
    random = torch.Generator().manual_seed(0)
    model = Compiled(program, **options).eval()
    texts = [Instance(program.sample(random), None) for _ in range(count)]
    return Adapter(model, texts, forward=lambda model, inputs: model(inputs.tokens)[:, -1])


@pytest.mark.parametrize("program", [copy_first(), induction()], ids=lambda program: program.name)
def test_the_named_writer_holds_the_weight_and_random_vectors_do_not(program):
    lost, error = causes(judged(program))
    assert lost.n >= 15 and lost.against("random") == "better"
    assert lost.value > 0.2 + lost.baselines["random"]
    assert error.value < 1e-3  # without a normalisation the parts foretell everything
    assert "without random vectors of the same size" in lost.says


def test_a_normalisation_is_in_the_error():
    class Normed(Compiled):
        def forward(self, ids):
            x = nn.functional.layer_norm(
                self.embed(ids) + self.places(torch.arange(ids.shape[-1])), self.embed.weight.shape[1:]
            )
            for layer in self.layers:
                x = x + layer["attention"](nn.functional.layer_norm(x, x.shape[-1:]))
            return self.unembed(x)

    adapter = judged(induction())
    model = Normed(induction()).eval()
    made = Adapter(model, adapter.instances, forward=lambda model, inputs: model(inputs.tokens)[:, -1])
    lost, error = causes(made)
    assert lost.value > lost.baselines["random"] and 1e-3 < error.value < 0.5


def test_scores_that_do_not_decompose_have_no_such_test():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.first, self.site = (
                nn.Embedding(9, 8),
                nn.TransformerEncoderLayer(8, 2, 8, batch_first=True),
                Site(),
            )

        def forward(self, ids):
            return self.site(self.first(self.embed(ids)))[:, -1]

    class Site(nn.Module):
        def forward(self, x):
            q = torch.tanh(x)[:, None]
            return nn.functional.scaled_dot_product_attention(q, q, x[:, None])[:, 0]

    random = torch.Generator().manual_seed(0)
    texts = [Instance(torch.randint(0, 9, (7,), generator=random), None) for _ in range(4)]
    with pytest.raises(NotApplicable, match="not linear in the residual stream"):
        causes(Adapter(Hidden().eval(), texts, forward=lambda model, inputs: model(inputs.tokens)))
