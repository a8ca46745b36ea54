"""Dense kernels on a GPU: the error of outputs and gradients is at most twice the reference's in the same precision."""

import pytest
import torch

from regard import Causal, Mask, Padding, Segments, Sigmoid, Window, attend, plan
from regard.core.alignments import LocalPredictive
from regard.core.scores import Additive, GATv2, Gaussian, ScaledDot

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]

SCORES = {
    "dot": lambda d: ScaledDot(),
    "tanh": lambda d: Additive(d, d, 40, heads=3),
    "leaky": lambda d: GATv2(d, heads=3),
    "gaussian": lambda d: Gaussian(2.0),
}
SIZES = {"causal": (300, 300, 64), "window": (130, 257, 40), "padded": (70, 333, 64), "keys": (1, 200, 128)}


def structure(name, m):
    return {
        "causal": Causal("end"),
        "window": Causal("end") & Window(50, 7, align="end"),
        "padded": Padding(torch.tensor([m, m // 3], device="cuda")),
        "keys": Mask(keep=(torch.arange(m, device="cuda") % 3 > 0)[None, None, None]),
    }[name]


def outcome(score, align, where, dtype, backend):
    n, m, d = SIZES[where]
    kind = torch.float64 if dtype is None else dtype
    torch.manual_seed(0)
    made = SCORES[score](d).to(torch.bfloat16).to(kind).cuda()
    sizes = ((n, d), (m, d), (m, 48))
    q, k, v = (torch.randn(2, 3, *shape).bfloat16().to(kind).cuda().requires_grad_() for shape in sizes)
    out = attend(q, k, v, made, align, structure(where, m), backend=backend).out
    leaves = [q, k, v, *made.parameters()]
    pull = torch.randn(out.shape).bfloat16().to(kind).cuda()
    return [out.detach(), *torch.autograd.grad(out, leaves, pull)]


def within_twice(true, own, mine, dtype):
    """Outputs, and gradients, are as near the truth as twice the reference's own in this precision, and two units."""
    for kind in (slice(0, 1), slice(1, None)):
        largest = max(x.abs().amax().item() for x in true[kind])
        for x, low, y in zip(true[kind], own[kind], mine[kind], strict=True):
            allowed = 2 * (low.double() - x).abs().amax().item() + 2 * torch.finfo(dtype).eps * largest
            assert (y.double() - x).abs().amax().item() <= allowed


@pytest.mark.parametrize("where", SIZES)
@pytest.mark.parametrize("align", ["softmax", "sigmoid", "sparsemax", "entmax15"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_errors_are_within_twice_the_references(score, align, where, dtype):
    true = outcome(score, align, where, None, "reference")
    own = outcome(score, align, where, dtype, "reference")
    mine = outcome(score, align, where, dtype, "triton-dense")
    within_twice(true, own, mine, dtype)


@pytest.mark.parametrize("d", [40, 64, 128])
@pytest.mark.parametrize("size", [1.0, 6.0, 60.0], ids=["small", "some large", "endless"])
def test_a_sigmoid_of_many_keys_is_the_references(size, d):
    """Warps whose weights are all small, warps that divide, and scores whose power of two is no number."""
    rows = []
    for kind, backend in (
        (torch.float64, "reference"),
        (torch.bfloat16, "reference"),
        (torch.bfloat16, "triton-dense"),
    ):
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 2, n, d).bfloat16().to(kind).cuda() for n in (300, 4100, 4100))
        q = (q * size).requires_grad_()
        k, v = k.requires_grad_(), v.requires_grad_()
        over = Causal("end") & Padding(torch.tensor([4100, 3333], device="cuda"))
        out = attend(q, k, v, "scaled_dot", "sigmoid", over, backend=backend).out
        pull = torch.randn(out.shape).bfloat16().to(kind).cuda()
        rows.append([out.detach(), *torch.autograd.grad(out, [q, k, v], pull)])
    within_twice(*rows, torch.bfloat16)


@pytest.mark.parametrize("bias", [-9.0, 0.0], ids=["small", "any"])
def test_what_is_no_number_stays_none_in_a_sigmoid(bias):
    q, k, v = (torch.randn(1, 2, 300, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    k[0, 0, 77, 5] = float("nan")
    out = attend(q, k, v, "scaled_dot", Sigmoid(bias), Causal(), backend="triton-dense").out
    assert out[0, 0, 77:].isnan().all() and out[0, 0, :77].isfinite().all() and out[0, 1].isfinite().all()


@pytest.mark.parametrize("score", ["dot", "tanh"])
def test_the_same_bits_twice(score):
    one, two = (outcome(score, "entmax15", "causal", torch.bfloat16, "triton-dense") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("over", ["packed", "mixed"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_segments_are_the_references(over, dtype):
    ids = torch.arange(300, device="cuda") // 70 if over == "packed" else torch.arange(300, device="cuda") * 7 % 5
    rows = []
    for kind, backend in ((torch.float64, "reference"), (dtype, "reference"), (dtype, "triton-dense")):
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 3, 300, 64).bfloat16().to(kind).cuda().requires_grad_() for _ in range(3))
        out = attend(q, k, v, over=Segments(ids) & Causal(), backend=backend).out
        pull = torch.randn(out.shape).bfloat16().to(kind).cuda()
        rows.append([out.detach(), *torch.autograd.grad(out, [q, k, v], pull)])
    within_twice(*rows, dtype)


def test_a_predicted_window_is_the_references():
    rows = []
    for kind, backend in ((torch.float64, "reference"), (torch.float32, "reference"), (torch.float32, "triton-dense")):
        torch.manual_seed(0)
        align = LocalPredictive(10, 64, heads=3).to(kind).cuda()
        q, k, v = (torch.randn(2, 3, n, 64).to(kind).cuda().requires_grad_() for n in (300, 500, 500))
        out = attend(q, k, v, align=align, backend=backend).out
        pull = torch.randn(out.shape).to(kind).cuda()
        rows.append([out.detach(), *torch.autograd.grad(out, [q, k, v, *align.parameters()], pull)])
    within_twice(*rows, torch.float32)


@pytest.mark.parametrize("score", ["dot", "tanh"])
def test_a_hard_choice_is_the_references(score):
    found = []
    for kind, backend in ((torch.float64, "reference"), (torch.float32, "triton-dense")):
        torch.manual_seed(0)
        made = SCORES[score](64).to(kind).cuda()
        q, k, v = (torch.randn(2, 3, n, 64).to(kind).cuda().requires_grad_() for n in (200, 333, 333))
        done = attend(q, k, v, made, "hard", sample=True, seed=5, backend=backend)
        loss = done.sample.log_prob.sum() + 0.3 * done.sample.entropy.sum() + done.out.sum()
        found.append([done.out.detach(), *torch.autograd.grad(loss, [q, k, v])])
    for true, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine.double(), true, atol=2e-4, rtol=2e-4)


def test_a_new_length_compiles_nothing():
    from regard.backends.triton.dense.forward import softmax_kernel

    seen = set()
    for n in (130, 257, 391):  # lengths are divisible by 16 or not: two kernels, whatever the length
        q = torch.randn(1, 2, n, 64, device="cuda", dtype=torch.bfloat16)
        attend(q, q, q, "additive", backend="triton-dense")
        seen.add(sum(len(cache[0]) for cache in softmax_kernel.device_caches.values()))
    assert len(seen) == 1


def test_auto_takes_the_kernels_where_no_library_has_one_and_pairs_are_many():
    def chosen(n, *given, dtype=torch.float32):
        q = torch.randn(1, 2, n, 64, device="cuda", dtype=dtype)
        return plan(q, q, q, *given).backend

    score = Additive(64, 64, 64, heads=2).cuda()
    assert chosen(256, score) == "triton-dense" == chosen(256, "scaled_dot", "entmax15")
    assert chosen(256, Additive(64, 64, 64, heads=2, features=True).cuda()) == "triton-features"
    assert chosen(256) == "sdpa" and chosen(16, score) == "reference"
    assert chosen(256, "scaled_dot", "entmax15", dtype=torch.float64) == "chunked"
    assert chosen(256, "gaussian") == "sdpa" == chosen(8, "gaussian", dtype=torch.bfloat16)
    assert chosen(256, "gaussian", dtype=torch.bfloat16) == "triton-dense"  # in 16 bits its bias would be three columns
