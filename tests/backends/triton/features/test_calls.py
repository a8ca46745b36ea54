"""Calls of the feature-wise kernels: what they are given as it is, what they write, and calls that are done again."""

import pytest
import torch

pytest.importorskip("triton")

from tests.backends.addressed import addressed

from regard import Mask, Padding, SoftCap, Window, attend
from regard.backends.triton.features import launch
from regard.backends.triton.features.backend import TritonFeatures, features_op
from regard.core.plan import make_plan
from regard.core.scores import Additive, Dot

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # as it should

UNMASKED = None, None, 1 << 30, 1 << 30, 1
TANH, IDENTITY = (0, 0, 1.0, 1.0, 0.0, 0.0), (1, 0, 1.0, 1.0, 1.0, 0.0)
PRODUCT = (1, 1, 1.0, 1.0, 1.0, 0.0)


def capped(cap):
    return 0, 0, cap, 1 / cap, 0.0, 0.0


def truth(a, b, v, bias, numbers):
    """out and tau by the formula, in fp64."""
    kind, join, factor, steep, linear, bent = numbers
    z = a[:, :, None] * b[:, None] if join else a[:, :, None] + b[:, None]
    s = factor * (steep * z).tanh() if kind == 0 else factor * (linear * z + bent * z.abs())
    s = s if bias is None else s + bias[:, None]
    return (s.softmax(2) * v[:, None]).sum(2), s.logsumexp(2)


def drawn(n=5, m=7, f=3, size=1.0, dtypes=(torch.float32,) * 3, bias=None):
    tensors = [(size * torch.randn(2, places, f)).to(dtype) for places, dtype in zip((n, m, m), dtypes, strict=True)]
    return [x.requires_grad_() for x in (*tensors, *([] if bias is None else [bias]))]


def compare(given, numbers, ulps=64):
    """Outputs, tau and gradients of features_op are those of the formula; gradients read out as it is rounded."""
    a, b, v, *bias = given
    exact = [x.detach().double().requires_grad_() for x in given]
    out, tau, _ = features_op(a, b, v, *(bias or [None]), *UNMASKED, *numbers)
    pull = torch.randn(out.shape).to(out.dtype)
    true = truth(*exact, *([] if bias else [None]), numbers)
    grads, wanted = torch.autograd.grad(out, given, pull), torch.autograd.grad(true[0], exact, pull.double())
    assert [x.dtype for x in grads] == [x.dtype for x in given]
    for mine, right in zip((tau, out, *grads), (*true[::-1], *wanted), strict=True):
        eps = max(torch.finfo(x.dtype).eps for x in ((mine,) if mine is tau else (mine, out)))
        bound = ulps * eps * max(1.0, numbers[2], right.abs().max().item())  # scores are up to a cap
        assert (mine.double() - right).abs().max().item() <= bound


@pytest.mark.covered
@pytest.mark.parametrize("size", [10.0, 30.0, 300.0, 1e6])
@pytest.mark.parametrize("numbers", [TANH, capped(5.0), capped(60.0)], ids=["tanh", "DiSA", "a high cap"])
def test_sums_of_huge_numbers_that_nearly_cancel_are_bent_as_they_are(numbers, size):
    """Their exponentials are 0 and infinity, and the product of these is neither."""
    a, b, v = drawn()
    b = (b + size * numbers[2] * torch.tensor([1.0, -1.0, 0.0])).detach().requires_grad_()
    a = (a - size * numbers[2] * torch.tensor([1.0, -1.0, 0.0])).detach().requires_grad_()
    compare([a, b, v], numbers, ulps=256)


def test_one_side_may_be_huge_where_the_other_is_not():
    for large in (0, 1):
        given = drawn()
        given[large] = (1e4 * given[large]).detach().requires_grad_()
        compare(given, TANH)


@pytest.mark.parametrize("numbers", [TANH, capped(0.3), capped(5.0), capped(60.0), IDENTITY, PRODUCT])
def test_each_tensor_is_of_its_own_type(numbers):
    types = torch.bfloat16, torch.float32, torch.float16
    for turn in range(3):
        compare(drawn(dtypes=types[turn:] + types[:turn]), numbers, ulps=4)


@pytest.mark.covered
@pytest.mark.parametrize("numbers", [TANH, PRODUCT], ids=["tanh", "product"])
@pytest.mark.parametrize(
    "laid",
    [
        lambda x: x,
        lambda x: x.mT.contiguous().mT,
        lambda x: x[..., :1].expand(-1, -1, 3),
        lambda x: x.bfloat16(),
    ],
    ids=["as it is", "features first", "one for all", "16 bits"],
)
def test_a_bias_of_keys_may_lie_anyhow(numbers, laid):
    compare(drawn(bias=laid(torch.randn(2, 7, 3)).detach()), numbers)


def test_a_key_that_a_bias_takes_away_has_no_weight():
    bias = torch.randn(2, 7, 3)
    bias[0, 2], bias[1, :, 1] = -float("inf"), -float("inf")
    given = drawn(bias=bias)
    out, tau, _ = features_op(*given, *UNMASKED, *TANH)
    grads = torch.autograd.grad(out.sum(), given)
    assert all(torch.isfinite(x).all() for x in (out, *grads))
    assert (out[1, :, 1] == 0).all() and (tau[1, :, 1] == float("inf")).all() and torch.isfinite(tau[0]).all()
    assert (grads[2][0, 2] == 0).all() and (grads[3][0, 2] == 0).all()


@pytest.mark.covered
@pytest.mark.parametrize("score", [lambda: Dot(features=True), lambda: Additive(features=True)], ids=["dot", "tanh"])
@pytest.mark.parametrize(
    "over",
    [
        Window(9, -1, align="end"),
        Padding(torch.tensor([4, 0])),
        Mask(keep=torch.zeros(2, 1, 1, 9, dtype=torch.bool)),
    ],
    ids=["the first row", "an item of none", "no key at all"],
)
def test_rows_that_see_nobody_have_an_endless_tau_and_hand_nothing_back(score, over):
    q, k, v = (torch.randn(2, 1, 9, 3).requires_grad_() for _ in range(3))
    done = TritonFeatures().run(make_plan(q, k, v, score(), "softmax", over))
    true = attend(q, k, v, score(), "softmax", over, backend="reference")
    empty = (true.map.weights() == 0).all(-1).flatten(0, 1)
    assert empty.any() and torch.equal(done.state.tau == float("inf"), empty)
    grads = torch.autograd.grad(done.out.sum(), (q, k, v))
    for mine, right in zip(grads, torch.autograd.grad(true.out.sum(), (q, k, v)), strict=True):
        torch.testing.assert_close(mine, right)


@pytest.mark.parametrize("cap", [0.3, 5.0, 60.0])
def test_gradients_under_a_cap_are_the_references(cap):
    q, k, v = (3 * torch.randn(1, 2, 9, 3) for _ in range(3))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    score, pull = Additive(activation="identity", features=True) | SoftCap(cap), torch.randn(1, 2, 9, 3)
    mine = TritonFeatures().run(make_plan(q, k, v, score, "softmax", None)).out
    true = attend(q, k, v, score, backend="reference").out
    pairs = zip(*(torch.autograd.grad(x, (q, k, v), pull) for x in (mine, true)), strict=True)
    for x, y in pairs:
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "numbers", [capped(5.0), pytest.param(PRODUCT, marks=pytest.mark.slow)], ids=["DiSA", "product"]
)
def test_calls_that_are_done_again_give_what_their_own_tensors_give(numbers, monkeypatch):
    plain = launch.run, launch.run_back
    run, run_back = addressed(monkeypatch, launch)
    results = []
    for _ in range(4):
        a, b, v = (torch.randn(2, places, 8) for places in (4, 6, 6))
        a = a.mT.contiguous().mT  # not as kernels want it: it is copied, in each call
        given = a, b, v, None, *UNMASKED, *numbers
        out, tau, rows = run(*given)
        dout = torch.randn_like(out)
        results.append([out, tau, *run_back(*given, out, rows, dout)])
        wanted = plain[0](*given)
        wanted = [*wanted[:2], *plain[1](*given, wanted[0], wanted[2], dout)]
        assert all(torch.equal(x, y) for x, y in zip(results[-1], wanted, strict=True))
    assert all(tape.complete for each in (run, run_back) for tape in each.tapes.values())
    assert not torch.equal(results[2][0], results[3][0])


@pytest.mark.parametrize(
    "score", [lambda: Dot(features=True), lambda: Additive(features=True)], ids=["product", "tanh"]
)
def test_a_gradient_that_is_done_again_is_that_of_its_own_tensors(score, monkeypatch):
    run, back = addressed(monkeypatch, launch)
    for count in range(5):
        q, k, v = (torch.randn(1, 2, 6, 4).requires_grad_() for _ in range(3))
        pull = torch.randn(1, 2, 6, 4)
        if count == 4:
            monkeypatch.setattr(back, "tapes", None)  # nobody looks there any more
        out = TritonFeatures().run(make_plan(q, k, v, score(), "softmax", None)).out
        true = attend(q, k, v, score(), backend="reference").out
        pairs = zip(*(torch.autograd.grad(x, (q, k, v), pull) for x in (out, true)), strict=True)
        for mine, right in ((out, true), *pairs):
            torch.testing.assert_close(mine, right, rtol=1e-5, atol=1e-5)
    assert all(tape.complete for tape in run.tapes.values())
