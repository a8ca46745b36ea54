"""The reference is the definition: its gradients are those of finite differences, once and twice."""

import pytest
import torch
from tests.oracle import Case
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call

from regard import ALiBi, Causal, Cosine, Dot, Gumbel, LocationAware, Monotonic, ScaledDot, Softmax, attend

SPREAD = [
    Case("scaled dot", "softmax", "full", "n<m", "4 on 2"),
    Case("dot", "sparsemax", "causal to the end", "n<m"),
    Case("general", "entmax 1.5", "padding", "n=m", "3 on 1"),
    Case("biased general", "entmax, learned", "mask by head", "n>m"),
    Case("activated general", "sigmoid", "window", "n<m"),
    Case("additive", "softmax", "segments by item", "n=1"),
    Case("additive by feature", "entmax 1.25", "edges", "n<m"),
    Case("cosine", "relu", "full", "m=1"),
    Case("content", "gumbel, drawn", "causal & padding", "n=m"),
    Case("gaussian, learned width", "softmax", "edges with loops", "n>m"),
    Case("gaussian by feature", "softmax", "causal from the start", "n<m"),
    Case("laplace", "top-3", "full", "n<m"),
    Case("trilinear", "local predictive", "padding", "n<m"),
    Case("location", "local", "full", "n=m"),
    Case("query-free", "softmax", "segments to pool", "n<m"),
    Case("learned query", "sigmoid, fixed bias", "full", "n=1"),
    Case("gat", "softmax", "edges & padding & causal", "n=m"),
    Case("gatv2", "softmax", "edges", "n=m", "4 on 2"),
    Case("linear kernel", "softmax", "causal to the end", "n<m"),
    Case("own", "entmax 1.5", "window & padding", "n<m"),
    Case("additive | soft cap | relative bias | sink", "softmax", "mask of pairs", "n<m"),
    Case("dot by feature | alibi | sink", "sparsemax", "full", "n=1"),
    Case("gaussian | own | sink", "softmax", "full", "n<m", dropout=0.3),
    Case("scaled dot", "uniform", "causal & padding", "n=m"),
]


class Attends(nn.Module):
    """attend as a function of q, k, v and of every parameter."""

    def __init__(self, case: Case, backend: str):
        super().__init__()
        inputs = case.inputs(torch.float64)
        self.score, self.align, self.over = inputs.score, inputs.align, inputs.over
        self.options = {"backend": backend, **case.options}
        # off the grid of bf16, on which two numbers may be equal and stand on the edge of an absolute value
        self.inputs = [x.detach() + 0.01 * torch.randn_like(x) for x in (inputs.q, inputs.k, inputs.v)]

    def forward(self, q, k, v):
        return attend(q, k, v, self.score, self.align, self.over, **self.options).out

    def function(self):
        """f(q, k, v, *parameters), and the point at which it is looked at."""
        names = [name for name, _ in self.named_parameters()]
        point = [*self.inputs, *(p.detach().clone() for p in self.parameters())]

        def f(*x):
            return functional_call(self, dict(zip(names, x[3:], strict=True)), x[:3])

        return f, tuple(x.requires_grad_() for x in point)


@pytest.mark.parametrize("case", SPREAD, ids=lambda case: f"{case.score}, {case.align}, {case.over}")
def test_gradients_are_those_of_finite_differences(case):
    f, point = Attends(case, "reference").function()
    assert gradcheck(f, point, fast_mode=True)


@pytest.mark.parametrize("case", SPREAD, ids=lambda case: f"{case.score}, {case.align}, {case.over}")
def test_second_derivatives_are_those_of_finite_differences(case):
    f, point = Attends(case, "reference").function()
    assert gradgradcheck(f, point, fast_mode=True)


def test_stepwise_mechanisms_differentiate_through_their_steps():
    q, k, v = (torch.randn(1, 2, n, 3, dtype=torch.float64, requires_grad=True) for n in (3, 4, 4))
    score = LocationAware(3, heads=2, filters=2, kernel=3).double()
    assert gradcheck(lambda *x: attend(*x, score=score).out, (q, k, v), fast_mode=True)
    assert gradgradcheck(lambda *x: attend(*x, align=Monotonic()).out, (q, k, v), fast_mode=True)


def test_the_straight_through_gradient_is_that_of_the_soft_weights():
    """Not the derivative of the output, by design: the weights are one-hot, the gradient is softmax's."""
    q, k, v = (torch.randn(1, 2, n, 4, dtype=torch.float64, requires_grad=True) for n in (5, 7, 7))
    found = []
    for hard in (True, False):
        out = attend(q, k, v, align=Gumbel(0.5, straight_through=hard), sample=True, seed=3, backend="reference").out
        pull = torch.autograd.grad(out, [q, k], (torch.ones_like(out) @ torch.eye(4, dtype=out.dtype)))
        found.append(pull)
    torch.testing.assert_close(found[0], found[1])


def test_leading_axes_are_a_batch():
    q, k, v = (torch.randn(2, 3, 2, n, 4, dtype=torch.float64) for n in (5, 7, 7))
    whole = attend(q, k, v, backend="reference").out
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(attend(q[i, j], k[i, j], v[i, j], backend="reference").out, whole[i, j])
    torch.testing.assert_close(attend(q[0, 0, 0], k[0, 0, 0], v[0, 0, 0], backend="reference").out, whole[0, 0, 0])


def test_scores_stay_in_the_precision_of_the_input_and_weights_do_not():
    """bf16 scores, fp32 statistics: the rows still sum to one to 1e-6, not to 1e-2."""
    q, k = torch.randn(1, 1, 4, 8).bfloat16(), torch.randn(1, 1, 300, 8).bfloat16()
    rows = (
        attend(q, k, torch.eye(300).bfloat16()[None, None], score=Cosine(), backend="reference").map.weights().sum(-1)
    )
    assert (rows - 1).abs().max() < 1e-6
    assert rows.dtype == torch.float32


def test_an_alignment_given_by_name_is_the_one_given_as_an_object():
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    named = attend(q, k, v, "scaled_dot", "softmax", Causal(), backend="reference").out
    assert torch.equal(named, attend(q, k, v, ScaledDot(), Softmax(), Causal(), backend="reference").out)


def test_dot_and_alibi_is_the_formula_written_out():
    q, k, v = (torch.randn(1, 2, 5, 4, dtype=torch.float64) for _ in range(3))
    slopes = torch.tensor([0.5, 0.1], dtype=torch.float64)
    far = (torch.arange(5)[:, None] - torch.arange(5)).abs()
    written = torch.softmax(q @ k.transpose(-1, -2) - slopes[:, None, None] * far, -1) @ v
    torch.testing.assert_close(attend(q, k, v, Dot() | ALiBi(slopes=slopes), backend="reference").out, written)
