"""Separable: two products of matrices are the softmax of each feature, and far-apart maxima are noticed."""

import pytest
import torch
from tests.backends.chunked.test_backend import Largest

from regard import Causal, Edges, Full, Mask, Padding, PairBias, Refused, Segments, Window, attend, plan
from regard.backends import separable
from regard.core.scores import ALiBi, Dot, QueryFree
from regard.nn import AttentionFree

STRUCTURES = [
    (9, 9, Full()),
    (4, 9, Padding(torch.tensor([9, 0]))),
    (9, 9, Causal()),
    (9, 9, Window(9, -1)),  # the first row sees nobody
    (9, 9, Segments(torch.tensor([0, 0, 1, 1, 1, 2, 0, 2, 2])) & Padding(torch.tensor([9, 3]))),
    (3, 9, Mask(keep=torch.arange(27).view(3, 9) % 4 > 0)),
    (5, 0, Full()),
    (5, 0, Padding(torch.tensor([0, 0]))),
    (0, 5, Causal("end")),
]


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize(("n", "m", "over"), STRUCTURES, ids=str)
def test_outputs_gradients_and_row_statistics_are_the_definitions(n, m, over, biased, monkeypatch):
    monkeypatch.setattr(separable, "BUDGET", 2 * 2 * max(1, m) * 4)  # several blocks, a last one that is not full
    torch.manual_seed(0)
    q, k, v, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in ((2, 2, n, 3), (2, 2, m, 3), (2, 2, m, 3), (2, n, m))
    )
    score = QueryFree(activation="tanh", features=True)
    score = score | PairBias(bias) if biased else score
    pull = torch.randn(2, 2, n, 3, dtype=torch.float64)
    found = []
    for backend in ("separable", "reference", "chunked"):
        done = attend(q, k, v, score, over=over, backend=backend)
        leaves = [k, v, bias] if biased else [k, v]
        grads = torch.autograd.grad(done.out, leaves, pull, materialize_grads=True)
        weights = done.map.weights()
        found.append((done.out.detach(), weights.detach(), *grads))
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, rtol=1e-10, atol=1e-10)


def test_the_largest_of_keys_and_of_biases_may_be_far_apart():
    """exp underflows at one key for the key's part and at the other for the pair's: the sum would be 0."""
    k = torch.tensor([[0.0], [-100.0]])[None, None].requires_grad_()
    v = torch.tensor([[1.0], [2.0]])[None, None]
    bias = torch.tensor([[-100.0, 0.0]])
    score = QueryFree(activation="identity", features=True) | PairBias(bias)
    out = attend(k[..., :1, :], k, v, score, backend="separable").out
    assert out.item() == pytest.approx(1.5)
    assert torch.autograd.grad(out.sum(), k)[0].flatten().tolist() == pytest.approx([-0.25, 0.25])


def test_attention_free_runs_as_two_products_and_holds_few_rows_at_a_time(monkeypatch):
    layer, x = AttentionFree(8, 600), torch.randn(1, 600, 8)
    k = x.unsqueeze(1)
    assert plan(k, k, k, QueryFree(activation="identity", features=True) | PairBias(torch.zeros(600, 600))).backend == (
        "separable"
    )
    monkeypatch.setattr(separable, "BUDGET", 600 * 32)
    with torch.no_grad(), Largest() as seen:
        layer(x)
    assert seen.elements <= 600 * 600  # the table itself; never a number for each pair and feature


def test_what_it_leaves_to_others():
    q = torch.randn(1, 1, 4, 3)
    free = QueryFree(activation="identity", features=True)
    for score, align, over, why in (
        (Dot(features=True), "softmax", None, "features alone"),
        (free, "sparsemax", None, "softmax"),
        (free, "softmax", Edges(torch.tensor([[0, 1], [1, 2]])), "Edges"),
        (QueryFree(), "softmax", None, "features alone"),
    ):
        with pytest.raises(Refused, match=why):
            attend(q, q, q, score, align, over, backend="separable")
    assert not plan(q, q, q, free | ALiBi(1)).refusals["separable"]
