"""What lies behind closed gates is forgotten."""

import pytest
import torch
from torch.nn.functional import logsigmoid
from torch.testing import assert_close

from regard import ALiBi, Causal, ForgettingGate, Refused, ScaledDot, Sink, SoftCap, attend, plan


def test_weights_are_softmax_weights_times_the_gates_between():
    q, k, v = torch.randn(3, 2, 3, 6, 4, dtype=torch.float64)
    gates = torch.rand(2, 3, 6, dtype=torch.float64)
    between = torch.zeros(2, 3, 6, 6, dtype=torch.float64)
    for i in range(6):
        for j in range(i + 1):
            between[..., i, j] = gates[..., j + 1 : i + 1].prod(-1)
    e = torch.exp(q @ k.mT / 2) * between
    expected = e / e.sum(-1, keepdim=True)
    score = ScaledDot() | ForgettingGate(gates.log())
    assert_close(attend(q, k, v, score, over=Causal()).map.weights(), expected)


def test_equal_gates_are_alibi():
    q, k, v = torch.randn(3, 1, 2, 9, 4)
    gate = ForgettingGate(torch.full((2, 9), -0.25))
    alibi = ALiBi(slopes=torch.tensor([0.25, 0.25]))
    outs = [attend(q, k, v, ScaledDot() | each, over=Causal()).out for each in (gate, alibi)]
    assert_close(*outs)


@pytest.mark.parametrize("align", ["softmax", "entmax15"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 3, 5), (3, 5), (1, 5)])
def test_the_gates_get_their_gradient(shape, align):
    q = torch.randn(2, 3, 4, 4, dtype=torch.float64).requires_grad_()
    k, v = (torch.randn(2, 3, 5, 4, dtype=torch.float64).requires_grad_() for _ in range(2))
    raw = torch.randn(shape, dtype=torch.float64).requires_grad_()
    found = []
    for backend in ("reference", "chunked"):
        score = ScaledDot() | ForgettingGate(logsigmoid(raw), align="end")
        out = attend(q, k, v, score, align, Causal(align="end"), backend=backend).out
        found.append([out, *torch.autograd.grad(out.sin().sum(), [q, k, v, raw])])
    for a, b in zip(*found, strict=True):
        assert_close(a, b)


def test_gates_of_another_length_or_other_heads_are_refused():
    q = torch.randn(1, 2, 4, 3)
    with pytest.raises(ValueError, match="has 5 gates a head, but there are 4 keys"):
        attend(q, q, q, ScaledDot() | ForgettingGate(torch.zeros(2, 5)), over=Causal())
    with pytest.raises(ValueError, match="gates for 3 heads, but queries have 2"):
        attend(q, q, q, ScaledDot() | ForgettingGate(torch.zeros(3, 4)), over=Causal())


@pytest.mark.parametrize("align", ["sigmoid", "relu", "stick_breaking", "softpick", "softmax1"])
@pytest.mark.parametrize("backend", ["auto", "reference", "chunked"])
def test_an_alignment_that_a_shift_changes_has_no_factor_and_is_refused(align, backend):
    q = torch.randn(1, 2, 4, 3)
    with pytest.raises(Refused, match="ForgettingGate multiplies exp"):
        attend(q, q, q, ScaledDot() | ForgettingGate(torch.zeros(2, 4)), align, Causal(), backend=backend)


def test_it_is_a_bias_of_keys_where_nothing_else_sees_the_row():
    q, k, v = torch.randn(3, 2, 3, 6, 4, dtype=torch.float64)
    gate = ForgettingGate(logsigmoid(torch.randn(2, 3, 6, dtype=torch.float64)))
    found = plan(q, k, v, ScaledDot() | gate, over=Causal())
    assert not found.problem.score.modifiers and found.problem.score.key_bias is not None
    assert not found.refusals["sdpa"]
    for score in (ScaledDot() | gate | Sink(3), ScaledDot() | gate | SoftCap(2.0)):
        assert plan(q, k, v, score, over=Causal()).problem.score.modifiers
        outs = [attend(q, k, v, score.double(), over=Causal(), backend=x).out for x in ("reference", "chunked")]
        assert_close(*outs)
