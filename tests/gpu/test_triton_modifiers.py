"""Modified scores in the dense kernels on a GPU: outputs and every gradient beside the reference."""

import pytest
import torch

from regard import (
    ALiBi,
    Causal,
    Padding,
    PairBias,
    RelativeBias,
    Segments,
    Sink,
    SoftCap,
    T5Bias,
    Window,
    attend,
    plan,
)
from regard.core.modifiers import Clamp, SharedPairBias
from regard.core.scores import ScaledDot

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]

HEADS, N = 4, 300


def given(*shape):
    return torch.randn(shape, device="cuda").requires_grad_()


SCORES = {
    "soft cap": lambda: ScaledDot() | SoftCap(2.0),
    "clamp": lambda: ScaledDot() | Clamp(1.5),
    "alibi": lambda: ScaledDot() | ALiBi(HEADS, align="end"),
    "learned alibi": lambda: ScaledDot() | ALiBi(HEADS, learned=True, align="end"),
    "relative bias": lambda: ScaledDot() | RelativeBias(HEADS, 100, align="end"),
    "one relative bias": lambda: ScaledDot() | RelativeBias(1, 3, align="end"),
    "t5 bias": lambda: ScaledDot() | T5Bias(HEADS, align="end"),
    "sink": lambda: ScaledDot() | Sink(HEADS),
    "pair bias": lambda: ScaledDot() | PairBias(given(2, HEADS, N, N)),
    "pair bias of heads": lambda: ScaledDot() | PairBias(given(HEADS, N, N)),
    "bias of keys": lambda: ScaledDot() | PairBias(given(2, 1, 1, N)),
    "pair bias of several items": lambda: ScaledDot() | SharedPairBias(given(1, HEADS, N, N), 2),
    "many": lambda: (
        ScaledDot()
        | RelativeBias(HEADS, 40, align="end")
        | SoftCap(2.0)
        | PairBias(given(HEADS, N, N))
        | ALiBi(HEADS, learned=True, align="end")
        | Sink(HEADS)
    ),
}
STRUCTURES = {
    "causal": lambda: Causal(),
    "window": lambda: Window(20, 3),
    "padded": lambda: Padding(torch.tensor([N, N // 3], device="cuda")),
    "segments": lambda: Segments(torch.arange(N, device="cuda") // 70),
}


def outcome(name, align, over, backend, dtype, d=64, d_v=64, kind=None, draw=0):
    """out and every gradient; kind: of what is computed, where it is not dtype."""
    torch.manual_seed(draw)
    kind = dtype if kind is None else kind
    leaves = [
        torch.randn(2, heads, N, size).to(dtype).to(kind).cuda().requires_grad_()
        for heads, size in ((HEADS, d), (2, d), (2, d_v))
    ]
    score = SCORES[name]().cuda()
    for x in score.parameters():
        torch.nn.init.normal_(x)
    score = score.to(dtype).to(kind)
    biases = [each.bias for each in score.modifiers if isinstance(each, PairBias)]
    out = attend(*leaves, score, align, STRUCTURES[over](), backend=backend).out
    pull = torch.randn(2, HEADS, N, d_v).to(dtype).to(kind).cuda()
    grads = torch.autograd.grad(out, [*leaves, *score.parameters(), *biases], pull, allow_unused=True)
    return [out.detach(), *(torch.zeros(1, device="cuda") if x is None else x for x in grads)]


def losses(name, align, over, dtype, sizes, draw):
    """Of out and of each gradient: how far it is from the truth, and how far it may be."""
    true = outcome(name, align, over, "reference", dtype, *sizes, kind=torch.float64, draw=draw)
    own, mine = (
        outcome(name, align, over, backend, dtype, *sizes, draw=draw) for backend in ("reference", "triton-dense")
    )
    largest = max(x.abs().max().item() for x in true[1:])
    found = []
    for place, (a, b, c) in enumerate(zip(true, own, mine, strict=True)):
        digit = torch.finfo(dtype).eps * (largest if place else a.abs().max().item())
        found.append(((c.double() - a).abs().max().item(), 2 * (b.double() - a).abs().max().item() + 2 * digit))
    return found


def no_further_than_twice(name, align, over, dtype, *sizes):
    """Than the reference in the same precision; what is broken is broken in the mean over draws of the numbers too."""
    draws = [losses(name, align, over, dtype, sizes, 0)]
    if not all(error <= bound for error, bound in draws[0]):
        draws += [losses(name, align, over, dtype, sizes, draw) for draw in range(1, 8)]
    for place, each in enumerate(zip(*draws, strict=True)):
        error, bound = (sum(x) / len(draws) for x in zip(*each, strict=True))
        assert error <= bound, place


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SCORES)
def test_softmax_of_each_modifier(name, dtype):
    no_further_than_twice(name, "softmax", "causal", dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("align", ["sigmoid", "sparsemax", "entmax15"])
@pytest.mark.parametrize("name", ["soft cap", "sink", "pair bias of heads", "many"])
def test_every_alignment(name, align, dtype):
    no_further_than_twice(name, align, "window", dtype)


@pytest.mark.parametrize("sizes", [(40, 24), (128, 128), (64, 16), (16, 64)], ids=str)
@pytest.mark.parametrize("over", STRUCTURES)
@pytest.mark.parametrize("align", ["softmax", "entmax15"])
def test_every_structure_and_width(align, over, sizes):
    for dtype in (torch.float32, torch.bfloat16):
        no_further_than_twice("many", align, over, dtype, *sizes)


def test_wide_heads():
    no_further_than_twice("many", "softmax", "causal", torch.bfloat16, 256, 256)
    no_further_than_twice("many", "softmax", "causal", torch.float32, 256, 256)


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax15"])
def test_the_same_bits_twice(align):
    one, two = (outcome("many", align, "causal", "triton-dense", torch.bfloat16) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(one, two, strict=True))


def test_the_gradient_of_a_shared_pair_bias_has_no_buffer_of_the_batch():
    """A bias of heads, 16 items: the bias and its gradient are 2 x 16 MiB, a number for each pair of each item 256."""
    n, items = 1024, 16
    q, k, v = (torch.randn(items, 4, n, 64, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
    bias = torch.randn(4, n, n, device="cuda").requires_grad_()
    out = attend(q, k, v, ScaledDot() | PairBias(bias), backend="triton-dense").out
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.autograd.grad(out, [q, k, v, bias], torch.ones_like(out))
    assert torch.cuda.max_memory_allocated() - before < 128 << 20


def test_auto_takes_these_kernels_where_flex_has_none():
    q, k, v = (torch.randn(1, 8, 2048, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    for align, backend in (("softmax", "flex"), ("sigmoid", "triton-dense"), ("sparsemax", "triton-dense")):
        assert plan(q, k, v, ScaledDot() | SoftCap(30.0), align, Causal()).backend == backend
    table = RelativeBias(8, 64).cuda()
    torch.use_deterministic_algorithms(True)
    try:
        assert plan(q, k, v, ScaledDot() | table, over=Causal()).backend == "triton-dense"
    finally:
        torch.use_deterministic_algorithms(False)
