"""Feature-wise kernels on a GPU: the error of outputs and gradients is at most twice the reference's."""

import pytest
import torch
from tests.gpu.test_triton_dense import structure, within_twice

from regard import SoftCap, attend
from regard.core.scores import Additive, Dot, Gaussian

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]

SCORES = {
    "tanh": lambda d: Additive(d, d, d, heads=3, features=True),
    "disa": lambda d: Additive(d, d, d, heads=3, activation="identity", features=True) | SoftCap(5.0),
    "relu": lambda d: Additive(d, d, d, heads=3, activation="relu", features=True),
    "product": lambda d: Dot(features=True),
    "gaussian": lambda d: Gaussian(2.0, features=True),
}
SIZES = {"causal": (150, 150, 64), "window": (130, 157, 40), "padded": (70, 133, 96), "keys": (1, 200, 8)}


def outcome(score, where, dtype, backend):
    n, m, d = SIZES[where]
    kind = torch.float64 if dtype is None else dtype
    torch.manual_seed(0)
    made = SCORES[score](d).to(torch.bfloat16).to(kind).cuda()
    q, k, v = (torch.randn(2, 3, places, d).bfloat16().to(kind).cuda().requires_grad_() for places in (n, m, m))
    out = attend(q, k, v, made, over=structure(where, m), backend=backend).out
    pull = torch.randn(out.shape).bfloat16().to(kind).cuda()
    return [out.detach(), *torch.autograd.grad(out, [q, k, v, *made.parameters()], pull)]


@pytest.mark.parametrize("where", SIZES)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_errors_are_within_twice_the_references(score, where, dtype):
    true, own, mine = (
        outcome(score, where, kind, backend)
        for kind, backend in ((None, "reference"), (dtype, "reference"), (dtype, "triton-features"))
    )
    within_twice(true, own, mine, dtype)


def test_the_same_bits_twice():
    one, two = (outcome("disa", "causal", torch.bfloat16, "triton-features") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
@pytest.mark.parametrize("size", [5.0, 40.0, 1e4])
def test_sums_of_huge_numbers_that_nearly_cancel_are_within_twice_the_references(size, dtype):
    """Their exponentials are 0 and infinity on a GPU too, and the product of these is neither."""

    def outcome(kind, backend):
        torch.manual_seed(0)
        away = size * torch.randn(1, 1, 1, 64).round()
        q, k, v = (torch.randn(1, 2, 130, 64) + part for part in (away, -away, 0.0))
        q, k, v = (x.bfloat16().to(kind).cuda().requires_grad_() for x in (q, k, v))
        out = attend(q, k, v, Additive(features=True), backend=backend).out
        return [out.detach(), *torch.autograd.grad(out, (q, k, v), torch.randn(out.shape).bfloat16().to(kind).cuda())]

    within_twice(
        outcome(torch.float64, "reference"), outcome(dtype, "reference"), outcome(dtype, "triton-features"), dtype
    )


@pytest.mark.parametrize("score", ["disa", "product"])
def test_calls_that_are_done_again_give_the_bits_of_calls_that_are_not(score, monkeypatch):
    from regard.backends.triton.features import launch as launches

    def both(seed):
        torch.manual_seed(seed)
        q, k, v = (torch.randn(1, 3, 200, 64, device="cuda", requires_grad=True) for _ in range(3))
        out = attend(q, k, v, made, backend="triton-features").out
        return [out, *torch.autograd.grad(out, (q, k, v), torch.randn_like(out))]

    made = SCORES[score](64).cuda()
    for each in (launches.run, launches.run_back):
        each.tapes.clear()
    found = [both(seed) for seed in range(4)]
    assert all(tape.complete for each in (launches.run, launches.run_back) for tape in each.tapes.values())
    for name in ("run", "run_back"):
        monkeypatch.setattr(launches, name, getattr(launches, name).function)
    for seed, results in enumerate(found):
        assert all(torch.equal(x, y) for x, y in zip(results, both(seed), strict=True))
