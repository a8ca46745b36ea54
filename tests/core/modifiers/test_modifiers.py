"""Pointwise modifiers: soft cap, ALiBi, relative bias, sink, activation (taxonomy 2.1 o)."""

import pytest
import torch
from tests.core.mechanisms import Own, OwnModifier, built, inputs
from torch import Tensor
from torch.testing import assert_close

from regard import Activation, ALiBi, Dot, RelativeBias, ScaledDot, Sink, SoftCap, attend


def weights_of(s: Tensor) -> Tensor:
    return torch.softmax(s, -1)


def test_soft_cap_bends_scores_below_its_bound() -> None:
    q, k, v = inputs()
    s = 20 * (q @ k.mT)
    capped = (Dot() | SoftCap(3.0))(20 * q, k)
    assert_close(capped, 3 * torch.tanh(s / 3))
    assert capped.abs().amax() <= 3 < s.abs().amax()
    assert_close(attend(20 * q, k, v, Dot() | SoftCap(3.0)).map.weights(), weights_of(capped))


def test_alibi_takes_a_slope_times_the_distance_from_each_score() -> None:
    q, k, v = inputs(n=5, m=5, heads=4)
    weights = attend(q, k, v, ScaledDot() | ALiBi(4)).map.weights()
    for h, slope in enumerate([2**-2, 2**-4, 2**-6, 2**-8]):  # the paper's for four heads
        s = q[:, h] @ k[:, h].mT / 2
        far = torch.tensor([[abs(i - j) for j in range(5)] for i in range(5)])
        assert_close(weights[:, h], weights_of(s - slope * far))


@pytest.mark.parametrize(("align", "shift"), [("start", 0), ("end", 2)])
def test_alibi_measures_from_where_the_query_stands_among_the_keys(align: str, shift: int) -> None:
    q, k, v = inputs()
    weights = attend(q, k, v, ScaledDot() | ALiBi(slopes=torch.tensor([0.5, 0.1]), align=align)).map.weights()
    far = torch.tensor([[abs(i + shift - j) for j in range(5)] for i in range(3)])
    s = q @ k.mT / 2 - torch.tensor([0.5, 0.1])[:, None, None] * far
    assert_close(weights, weights_of(s))


@pytest.mark.parametrize(("align", "shift"), [("start", 0), ("end", 2)])
def test_relative_bias_adds_a_learned_number_for_each_head_and_clipped_distance(align: str, shift: int) -> None:
    q, k, v = inputs()
    bias = RelativeBias(2, 2, align=align).double()
    with torch.no_grad():
        bias.table.normal_(generator=torch.Generator().manual_seed(0))
    slot = [[max(-2, min(2, j - i - shift)) + 2 for j in range(5)] for i in range(3)]
    s = q @ k.mT / 2 + bias.table[:, torch.tensor(slot)]
    assert_close(attend(q, k, v, ScaledDot() | bias).map.weights(), weights_of(s).detach())


def test_a_sink_is_one_more_key_without_a_value() -> None:
    q, k, v = inputs()
    sink = Sink(2).double()
    with torch.no_grad():
        sink.logits.copy_(torch.tensor([0.5, -1.0]))
    out, amap = attend(q, k, v, ScaledDot() | sink)
    e = torch.exp(q @ k.mT / 2)
    expected = e / (e.sum(-1, keepdim=True) + torch.exp(sink.logits)[:, None, None])
    assert_close(amap.weights(), expected.detach())
    assert_close(out, expected @ v)
    assert (amap.weights().sum(-1) < 1).all()


def test_a_sink_that_nobody_looks_at_changes_nothing() -> None:
    q, k, v = inputs()
    assert_close(attend(q, k, v, ScaledDot() | Sink(2, start=-1e4)).out, attend(q, k, v).out)


def test_hard_attention_may_choose_the_sink_and_then_sees_nothing() -> None:
    q, k, v = inputs()
    out, amap = attend(q, k, v, ScaledDot() | Sink(2, start=1e4), "hard")
    assert (out == 0).all()
    assert (amap.weights() == 0).all()


def test_activation_adds_its_bias_before_it_bends() -> None:
    q, k, v = inputs()
    act = Activation("tanh", bias=2).double()
    with torch.no_grad():
        act.bias.copy_(torch.tensor([0.3, -0.7]))
    s = torch.tanh(q @ k.mT + act.bias[:, None, None])
    assert_close((Dot() | act)(q, k), s)
    assert_close(attend(q, k, v, Dot() | act).map.weights(), weights_of(s).detach())


def test_modifiers_apply_in_the_order_in_which_they_are_written() -> None:
    q, k, _ = inputs(n=5, m=5)
    far = (torch.arange(5)[:, None] - torch.arange(5)).abs()
    slopes = torch.tensor([2.0, 3.0])
    s, shift = q @ k.mT, slopes[:, None, None] * far
    assert_close((Dot() | SoftCap(1.0) | ALiBi(slopes=slopes))(q, k), torch.tanh(s) - shift)
    assert_close((Dot() | ALiBi(slopes=slopes) | SoftCap(1.0))(q, k), torch.tanh(s - shift))


@pytest.mark.parametrize("score", ["own", "own_modifier"])
def test_a_score_and_a_modifier_of_ones_own_run_at_once_on_reference_and_chunked(score: str) -> None:
    q, k, v = inputs()
    made = built(score)
    outs = [attend(q, k, v, made, backend=b).out for b in ("reference", "chunked")]
    assert_close(*outs)
    tensors = [q, k, v, *made.parameters()]
    grads = [torch.autograd.grad(x.square().sum(), tensors) for x in outs]
    assert_close(*grads)


@pytest.mark.parametrize("score", [Own().double(), ScaledDot() | OwnModifier()])
def test_a_map_of_ones_own_score_is_read_head_by_head(score: Own) -> None:
    q, k, v = inputs()
    amap = attend(q, k, v, score).map
    assert_close(amap[1, 1].weights(), amap.weights()[1, 1])
    assert_close(amap[0, 1].column(2), amap.weights()[0, 1, :, 2])


def test_a_score_of_minus_infinity_closes_its_pair_and_a_row_of_them_is_empty() -> None:
    class Near(Own):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            s = super().forward(q, k)
            return s.masked_fill(s < -2.0, float("-inf"))

    q, k, v = inputs()
    q = (q.detach() + torch.tensor([0.0, 0.0, 100.0])[:, None]).requires_grad_()  # the last query is near nobody
    for backend in ("reference", "chunked"):
        out, amap = attend(q, k, v, Near().double(), backend=backend)
        assert (amap.weights()[:, :, 2] == 0).all()
        assert (out[:, :, 2] == 0).all()
        assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), [q, k, v]))


def test_logarithm_makes_a_kernel_a_score() -> None:
    q, k, v = (x.abs() for x in inputs())
    kernel = q @ k.mT
    assert_close(attend(q, k, v, Dot() | Activation("log")).map.weights(), kernel / kernel.sum(-1, keepdim=True))
