"""Flex: any pointwise modifier and any mask on torch's FlexAttention, forward on a CPU, beside the reference.

torch's own uncompiled form, which takes the same functions and writes out all scores, shows what is lowered; one plan
is compiled, since a compiler of C++ takes seconds for each.
"""

import shutil
import warnings

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import (
    ALiBi,
    Causal,
    ForgettingGate,
    Kerple,
    Mask,
    Padding,
    PairBias,
    Refused,
    RelativeBias,
    Segments,
    Sink,
    SoftCap,
    T5Bias,
    Window,
    attend,
)
from regard import plan as planned
from regard.backends import flex
from regard.core.lowering.tiles import Tile
from regard.core.modifiers import Activation, Clamp, Modifier
from regard.core.plan import make_plan
from regard.core.scores import Additive, Dot, Gaussian, General, ScaledDot
from regard.core.structures import Structure

HEADS, N, M = 4, 20, 25


class Wave(Modifier):
    """A modifier of a user's own: s' = gain_h s + cos(i - 2 j)."""

    def __init__(self, heads: int):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, heads))

    def forward(self, s, tile: Tile):
        return s * self.gain[tile.head].to(s.dtype) + torch.cos((tile.query - 2 * tile.key).to(s.dtype))


class Diagonals(Structure):
    """A mask of a user's own: every third diagonal."""

    def allowed(self, tile: Tile):
        return (tile.key - tile.query) % 3 == 0


def learned(module: nn.Module) -> nn.Module:
    for p in module.parameters():
        nn.init.normal_(p)
    return module


PLANS = {
    "plain": (ScaledDot, None),
    "soft cap": (lambda: ScaledDot() | SoftCap(1.5), Causal("end")),
    "alibi": (lambda: ScaledDot() | ALiBi(HEADS, align="end"), Causal("end")),
    "learned alibi": (lambda: Dot() | ALiBi(HEADS, learned=True, align="start"), Window(3, 2, align="end")),
    "relative bias": (lambda: ScaledDot() | RelativeBias(HEADS, 3, align="end"), Padding(torch.tensor([M, 7]))),
    "pair bias": (lambda: ScaledDot() | PairBias(torch.randn(HEADS, N, M)), Mask(keep=torch.rand(2, 1, N, M) > 0.4)),
    "bias of keys": (
        lambda: Gaussian(2.0) | SoftCap(2.0),
        Segments(torch.arange(N) // 9, key_ids=torch.arange(M) // 9),
    ),
    "several": (
        lambda: General(16, 16, HEADS) | Activation("tanh", bias=HEADS) | Clamp(0.7),
        Causal("end") & Padding(torch.tensor([0, 21])),
    ),
    "t5": (lambda: ScaledDot() | T5Bias(HEADS, align="end"), Causal("end")),
    "forgetting": (
        lambda: ScaledDot() | ForgettingGate(torch.nn.functional.logsigmoid(torch.randn(2, HEADS, M)), align="end"),
        Causal("end"),
    ),
    "own modifier, own mask": (lambda: ScaledDot() | Wave(HEADS) | SoftCap(3.0), Diagonals()),
    "sink": (lambda: Dot() | Sink(HEADS), Window(1, 1, align="start")),
}


def given(dtype=torch.float32, shared=2):
    torch.manual_seed(0)
    return [torch.randn(2, h, n, d).to(dtype) for h, n, d in ((HEADS, N, 16), (shared, M, 16), (shared, M, 24))]


@pytest.fixture
def uncompiled(monkeypatch):
    """torch's own definition, which says the log-sum-exp on a CPU too."""
    made = flex._compiled.__wrapped__

    def plainly(with_lse):
        with monkeypatch.context() as only:
            only.setattr(torch, "compile", lambda function, **_: function)
            return made(True)

    monkeypatch.setattr(flex, "_compiled", plainly)
    monkeypatch.setattr(flex, "_say", lambda *_: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it writes out all scores
        yield


@pytest.mark.covered
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", PLANS)
def test_the_output_and_the_row_statistics_are_the_references(name, dtype, uncompiled):
    made, over = PLANS[name]
    torch.manual_seed(1)
    score, (q, k, v) = learned(made()).to(dtype), given(dtype)
    with torch.no_grad():
        asked = make_plan(q, k, v, score, "softmax", over)
        ran = flex.Flex().run(asked)
        low = attend(q, k, v, score, "softmax", over, backend="reference")
        true = attend(*(x.double() for x in (q, k, v)), score.double(), "softmax", over, backend="reference")
    far = [(out.double() - true.out).abs().max().item() for out in (ran.out, low.out)]
    assert far[0] <= 2 * far[1] + 2 * torch.finfo(dtype).eps * true.out.abs().max().item()
    if dtype == torch.float32:  # torch's uncompiled form makes scores of 16 bits
        assert_close(ran.state.tau.double().unflatten(0, (2, HEADS)), true.map.tau, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch compiles for a CPU by a compiler of C++: there is no g++."
)
def test_what_is_compiled_is_the_reference_and_is_said(capfd):
    q, k, v = given()
    score = ScaledDot() | ALiBi(HEADS, align="end") | SoftCap(2.0)
    with torch.no_grad():
        result = attend(q, k, v, score, "softmax", Causal("end"), backend="flex")
        true = attend(q, k, v, score, "softmax", Causal("end"), backend="reference")
    assert_close(result.out, true.out)
    assert_close(result.map.weights(), true.map.weights())
    assert "torch compiles FlexAttention with ALiBi, SoftCap, Causal" in capfd.readouterr().err


def test_gradients_are_refused_on_a_cpu_and_what_it_does_not_know_is_refused_in_a_sentence():
    q, k, v = given()

    def why(*arguments, **options):
        return " ".join(make_plan(*arguments, **options).refusals["flex"])

    assert "no gradient" in why(q.requires_grad_(), k, v, "scaled_dot")
    with pytest.raises(Refused, match=r"torch\.no_grad"):
        attend(q, k, v, ScaledDot() | SoftCap(2.0), backend="flex")
    with torch.no_grad():
        assert why(q, k, v, ScaledDot() | SoftCap(2.0)) == ""
        assert "Sparsemax" in why(q, k, v, "scaled_dot", "sparsemax")
        assert "dot products" in why(q, k, v, Additive(16, 16, 8))
        assert "log-sum-exp" in why(q, k, v, ScaledDot() | Sink(HEADS))
        assert "fp32" in why(q.double(), k.double(), v.double())
        assert "dropout" in why(q, k, v, dropout=0.1, seed=1)


class Wide(Modifier):
    def forward(self, s, tile: Tile):
        return s - s.amax(-1, keepdim=True) * (tile.key[0, 0] % 2)


def test_a_modifier_that_needs_axes_is_refused():
    with torch.no_grad():
        assert "calls Wide on one pair" in " ".join(make_plan(*given(), ScaledDot() | Wide()).refusals["flex"])
        learned = make_plan(*given(), ScaledDot() | Kerple(HEADS, align="end"))  # a function of its whole table
        assert "calls Kerple on one pair" in " ".join(learned.refusals["flex"])


def test_auto_takes_it_on_no_cpu():
    with torch.no_grad():
        assert planned(*given(), ScaledDot() | SoftCap(2.0)).backend != "flex"
