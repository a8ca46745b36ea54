"""The core on a CUDA device gives what it gives on a CPU; run with `pytest -m gpu tests/gpu` where there is one."""

import pytest
import torch

from regard import (
    Additive,
    ALiBi,
    Causal,
    Edges,
    Entmax,
    Gumbel,
    LocalPredictive,
    Mask,
    Padding,
    RelativeBias,
    ScaledDot,
    Segments,
    Sink,
    SoftCap,
    TopK,
    Window,
    attend,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]
B, H, N, M, D = 2, 4, 5, 7, 6

SCORES = {
    "scaled dot": lambda: "scaled_dot",
    "gaussian": lambda: "gaussian",
    "additive": lambda: Additive(D, heads=H),
    "by feature": lambda: Additive(D, features=D, heads=H),
    "gat": lambda: "gat",
    "modified": lambda: (
        ScaledDot() | SoftCap(2.0) | ALiBi(H, align="start") | RelativeBias(H, 3, align="end") | Sink(H)
    ),
}
ALIGNMENTS = {
    "softmax": lambda: "softmax",
    "entmax15": lambda: "entmax15",
    "learned entmax": lambda: Entmax(1.4, learned=True, heads=H),
    "topk": lambda: TopK(3),
    "sigmoid": lambda: "sigmoid",
    "relu": lambda: "relu",
    "hard": lambda: "hard",
    "gumbel": lambda: Gumbel(0.5, straight_through=True),
    "local predictive": lambda: LocalPredictive(3, D),
    "uniform": lambda: "uniform",
}
STRUCTURES = {
    "full": lambda: None,
    "causal": lambda: Causal("end"),
    "window & padding": lambda: Window(1, 2, align="start") & Padding(torch.tensor([7, 0])),
    "mask": lambda: Mask(keep=torch.arange(N * M).reshape(N, M) % 3 > 0),
    "segments": lambda: Segments(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 0, 0, 1, 1, 1, 1])),
    "edges": lambda: Edges(torch.tensor([[0, 3, 3, 6, 1, 2, 2, 5], [0, 0, 1, 1, 1, 4, 4, 4]])),
}


def _to(part, device):
    """A score or an alignment in fp64 on a device; a structure with its tensors there."""
    if isinstance(part, torch.nn.Module):
        return part.double().to(device)
    return part if part is None or isinstance(part, str) else part.to(device)


def _run(device, backend, score, align, over):
    torch.manual_seed(0)
    score, align, over = SCORES[score](), ALIGNMENTS[align](), STRUCTURES[over]()
    q, k, v = (torch.randn(B, H, x, D, dtype=torch.float64).to(device).requires_grad_() for x in (N, M, M))
    score, align, over = _to(score, device), _to(align, device), _to(over, device)
    weight = torch.randn(B, H, N, D, dtype=torch.float64).to(device)
    leaves = [q, k, v, *(p for part in (score, align) if isinstance(part, torch.nn.Module) for p in part.parameters())]
    made = attend(q, k, v, score, align, over, backend=backend, sample=True, seed=3, dropout=0.2)
    loss = (made.out * weight).sum()
    if made.sample is not None:
        loss = loss + made.sample.log_prob.sum() + made.sample.entropy.sum()
    grads = torch.autograd.grad(loss, leaves, allow_unused=True)
    zeros = (torch.zeros_like(leaf) for leaf in leaves)
    return [made.out, made.map.weights(), *(z if g is None else g for z, g in zip(zeros, grads, strict=True))]


@pytest.mark.parametrize("over", STRUCTURES)
@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", SCORES)
def test_the_device_gives_the_numbers_of_the_cpu_and_the_same_bits_twice(score, align, over):
    expected = _run("cpu", "reference", score, align, over)
    for backend in ("reference", "chunked"):
        found = _run("cuda", backend, score, align, over)
        # Gumbel noise is fp32, and the two devices round its logarithms differently
        near = 1e-5 if align == "gumbel" else 1e-9
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine.cpu(), theirs, rtol=near, atol=near)
    for one, two in zip(
        _run("cuda", "chunked", score, align, over), _run("cuda", "chunked", score, align, over), strict=True
    ):
        assert torch.equal(one, two)


@pytest.mark.parametrize("score", ["scaled_dot", "gaussian", "cosine", "trilinear", "general"])
@pytest.mark.parametrize("over", [None, Causal()], ids=str)
def test_sdpa_in_bf16_errs_at_most_twice_as_much_as_the_reference(score, over):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 300, 64, device="cuda", dtype=torch.bfloat16) * 0.5 for _ in range(3))
    truth = attend(q.double(), k.double(), v.double(), score, over=over, backend="reference").out
    low = (attend(q, k, v, score, over=over, backend="reference").out - truth).abs().max()
    ours = (attend(q, k, v, score, over=over, backend="sdpa").out - truth).abs().max()
    assert ours <= 2 * low + 2 * torch.finfo(torch.bfloat16).eps * truth.abs().max()


def test_a_long_additive_layer_trains_in_linear_memory():
    q, k, v = (torch.randn(1, 8, 4096, 64, device="cuda", requires_grad=True) for _ in range(3))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    attend(q, k, v, "additive", backend="chunked").out.sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 600 * 2**20
