"""The gradient of a loss by each weight, also of weights that each feature has for itself."""

import pytest
import torch
from torch.testing import assert_close

import regard
from regard import Causal, attend, record
from regard.scores import Dot


@pytest.mark.parametrize("over", [None, Causal()], ids=["all", "causal"])
def test_weights_of_each_feature_have_a_gradient_of_each_feature(over, tmp_path):
    q, k, v = (torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))
    pull = torch.randn(2, 3, 5, 4)
    with record(grad=True) as rec:
        out = attend(q, k, v, score=Dot(features=True), over=over).out
    (out * pull).sum().backward()
    expected = torch.einsum("bhic,bhjc->bhcij", pull, v.detach())
    expected = expected if over is None else expected.tril()
    found = rec.gradients["function"]
    assert found.shape == rec.maps["function"].shape == (2, 3, 4, 5, 5)
    assert_close(found.weights(), expected, rtol=0, atol=0)
    assert_close(found[0, 1].weights(), expected[0, 1], rtol=0, atol=0)
    loaded = regard.load(rec.save(tmp_path / "run.regard"))
    assert torch.equal(loaded.gradients["function"].weights(), expected)
