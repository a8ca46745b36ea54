"""FlexAttention on a GPU: outputs, statistics and every gradient beside the reference, and who "auto" takes."""

import pytest
import torch

from regard import ALiBi, Causal, PairBias, RelativeBias, Sink, SoftCap, Window, attend, plan
from regard.core.modifiers import Clamp
from regard.core.scores import ScaledDot

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]

HEADS = 4
SCORES = {
    "soft cap": lambda n: ScaledDot() | SoftCap(2.0),
    "clamp": lambda n: ScaledDot() | Clamp(1.5),
    "alibi": lambda n: ScaledDot() | ALiBi(HEADS, align="end"),
    "learned alibi": lambda n: ScaledDot() | ALiBi(HEADS, learned=True, align="end"),
    "relative bias": lambda n: ScaledDot() | RelativeBias(HEADS, 8, align="end"),
    "pair bias": lambda n: ScaledDot() | PairBias(torch.randn(HEADS, n, n, device="cuda").requires_grad_()),
    "sink": lambda n: ScaledDot() | Sink(HEADS),
    "soft cap, relative bias and sink": lambda n: ScaledDot() | SoftCap(2.0) | RelativeBias(HEADS, 4) | Sink(HEADS),
}
STRUCTURES = {"causal": Causal(), "window": Window(20, 3), "full": None}


def outcome(name, over, backend, dtype, d, d_v, n=300):
    torch.manual_seed(0)
    score = SCORES[name](n).cuda()
    for p in score.parameters():
        torch.nn.init.normal_(p)
    score = score.to(dtype)
    biases = [m.bias for m in score.modifiers if isinstance(m, PairBias)]
    sizes = ((HEADS, n, d), (2, n, d), (2, n, d_v))
    leaves = [torch.randn(2, *size).bfloat16().to(dtype).cuda().requires_grad_() for size in sizes]
    result = attend(*leaves, score, "softmax", STRUCTURES[over], backend=backend)
    pull = torch.randn(2, HEADS, n, d_v).bfloat16().to(dtype).cuda()
    grads = torch.autograd.grad(result.out, [*leaves, *score.parameters(), *biases], pull)
    return [result.out.detach(), *grads], result.map


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("over", STRUCTURES)
@pytest.mark.parametrize("name", SCORES)
def test_outputs_and_gradients_are_no_further_than_twice_the_references(name, over, dtype):
    d, d_v = (64, 64) if over != "full" else (40, 24)
    true, _ = outcome(name, over, "reference", torch.float64, d, d_v)
    own, _ = outcome(name, over, "reference", dtype, d, d_v)
    mine, amap = outcome(name, over, "flex", dtype, d, d_v)
    largest = max(x.abs().max().item() for x in true[1:])
    for place, (a, b, c) in enumerate(zip(true, own, mine, strict=True)):
        ulp = torch.finfo(dtype).eps * (largest if place else a.abs().max().item())
        assert (c.double() - a).abs().max().item() <= 2 * (b.double() - a).abs().max().item() + 2 * ulp
    rows = amap.weights().sum(-1)
    assert (rows <= 1 + 1e-3).all() and ("sink" in name or (rows >= 1 - 1e-2).all())


def test_auto_takes_it_where_no_kernel_of_ours_has_the_modifier():
    q, k, v = (torch.randn(1, 8, 2048, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    for score in (ScaledDot() | SoftCap(30.0), ScaledDot() | ALiBi(8), ScaledDot() | Sink(8)):
        assert plan(q, k, v, score.cuda(), over=Causal()).backend == "flex"
    assert plan(q, k, v, over=Causal()).backend == "sdpa"


def test_gradients_of_tables_are_refused_where_torch_is_to_be_deterministic():
    q, k, v = (torch.randn(1, HEADS, 300, 64, device="cuda") for _ in range(3))
    torch.use_deterministic_algorithms(True)
    try:
        refused = plan(q, k, v, (ScaledDot() | RelativeBias(HEADS, 4)).cuda()).refusals["flex"]
        assert "no fixed order" in " ".join(refused)
    finally:
        torch.use_deterministic_algorithms(False)
