"""Dense kernels on a GPU over the oracle's product: every two of its values meet in some case.

Each case is run three times, once with fresh memory full of NaN: the bits are the same, and the errors of outputs and
gradients at most twice the reference's in the same precision (in the mean over draws, as in tests/oracle.py).
"""

from itertools import combinations
from random import Random

import pytest
import torch
from torch._dynamo.utils import counters

from regard import Causal, Entmax, Mask, Padding, Segments, Sigmoid, TopK, Window, attend
from regard.core.scores import GAT, Additive, Cosine, GATv2, Gaussian, General, Laplace, ScaledDot, Trilinear

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="This machine has no CUDA device."),
]

FACTORS = {
    "score": {
        "dot": lambda d, h: ScaledDot(),
        "general": lambda d, h: General(d, d, heads=h),
        "cosine": lambda d, h: Cosine(4.0),
        "gaussian": lambda d, h: Gaussian(d**0.5),
        "laplace": lambda d, h: Laplace(float(d)),
        "trilinear": lambda d, h: Trilinear(d, heads=h),
        "tanh": lambda d, h: Additive(d, d, d, heads=h),
        "tanh, one for all": lambda d, h: Additive(d, d, 24),
        "relu": lambda d, h: Additive(d, d, d, heads=h, activation="relu"),
        "leaky": lambda d, h: GATv2(d, heads=h),
        "gat": lambda d, h: GAT(d, heads=h),
    },
    "align": {
        "softmax": "softmax",
        "sigmoid": "sigmoid",
        "biased": Sigmoid(-1.0),
        "sparsemax": "sparsemax",
        "entmax15": "entmax15",
        "entmax 1.3": Entmax(1.3),
        "top-3": TopK(3),
        "top-40": TopK(40),
    },
    "over": {
        "full": lambda b, h, n, m: None,
        "causal": lambda b, h, n, m: Causal("end"),
        "window": lambda b, h, n, m: Causal("start") & Window(30, 7, align="start"),
        "padding": lambda b, h, n, m: Padding(torch.arange(1, b + 1, device="cuda") * m // b),
        "keys": lambda b, h, n, m: Mask(keep=(torch.arange(h * m, device="cuda").view(h, 1, m) % 3 > 0)[None]),
        "segments": lambda b, h, n, m: Segments(*(torch.arange(x, device="cuda") // 23 for x in (n, m))),
    },
    "size": {
        "n=m": (129, 129),
        "n<m": (33, 300),
        "n>m": (300, 33),
        "n=1": (1, 77),
        "m=1": (50, 1),
        "m=0": (20, 0),
        "many": (257, 511),
    },
    "width": {
        "8": (8, 8),
        "16, 48": (16, 48),
        "40, 24": (40, 24),
        "64": (64, 64),
        "96, 128": (96, 128),
        "256": (256, 256),
    },
    "heads": {"1": (1, 1), "3": (3, 3), "4 on 2": (4, 2), "6 on 1": (6, 1)},
    "dropout": {"0": 0.0, "0.3": 0.3},
    "dtype": {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16},
}


def pairs_of(case):
    return set(combinations(case.items(), 2))


def cover(seed=0):
    """Cases in which every two values of two factors meet: greedily, the one of thirty that brings most new pairs."""
    random, names = Random(seed), {factor: list(values) for factor, values in FACTORS.items()}
    open_pairs = {((one, x), (two, y)) for one, two in combinations(names, 2) for x in names[one] for y in names[two]}
    cases = []
    while open_pairs:
        (one, x), (two, y) = min(open_pairs)
        tries = [
            {factor: random.choice(values) for factor, values in names.items()} | {one: x, two: y} for _ in range(30)
        ]
        best = max(tries, key=lambda case: len(pairs_of(case) & open_pairs))
        open_pairs -= pairs_of(best)
        cases.append(best)
    return cases


CASES = {", ".join(case.values()).replace(" ", "_"): case for case in cover()}


def given(case, dtype, seed):
    part = {factor: FACTORS[factor][value] for factor, value in case.items()}
    (n, m), (d, d_v), (heads, shared) = part["size"], part["width"], part["heads"]
    torch.manual_seed(seed)
    made = part["score"](d, heads).to(torch.bfloat16).to(dtype).cuda()
    sizes = ((heads, n, d), (shared, m, d), (shared, m, d_v))
    q, k, v = (torch.randn(2, *size).bfloat16().to(dtype).cuda().requires_grad_() for size in sizes)
    pull = torch.randn(2, heads, n, d_v).bfloat16().to(dtype).cuda()
    return part, made, (q, k, v), part["over"](2, heads, n, m), pull


def outcome(case, dtype, backend, seed=0):
    """The output and all gradients, by name."""
    part, made, qkv, over, pull = given(case, dtype, seed)
    out = attend(*qkv, made, part["align"], over, dropout=part["dropout"], seed=5, backend=backend).out
    leaves = dict(zip("qkv", qkv, strict=True)) | {f"score.{name}": x for name, x in made.named_parameters()}
    grads = torch.autograd.grad(out, list(leaves.values()), pull, allow_unused=True)
    found = {name: torch.zeros_like(x) if g is None else g for (name, x), g in zip(leaves.items(), grads, strict=True)}
    return {"out": out.detach()} | found


SLOPES = {
    "softmax": lambda w: w,
    "sparsemax": lambda w: (w > 0).to(w.dtype),
    "entmax15": torch.sqrt,
    "entmax 1.3": lambda w: torch.where(w > 0, w**0.7, 0.0),
}


def lost_to_the_mean(case, seed):
    """What gradients lose where the mean of dw, that a row takes out of it, comes from the output: dout . out, whose
    products are rounded once each. The reference sums it from the same dw, and its errors cancel: of one key, where
    every gradient of a score is 0, to the last bit. No kernel that keeps nothing of n x m does that.

    A row's error e reaches the scores as -e f'(s - tau), and the leaves through a sigmoid, whose slope is divided out.
    """
    dtype = FACTORS["dtype"][case["dtype"]]
    if case["align"] not in SLOPES:
        return {}
    part, made, qkv, over, pull = given(case, torch.float64, seed)
    done = attend(*qkv, made, part["align"], over, dropout=part["dropout"], seed=5, backend="reference")
    error = torch.finfo(dtype).eps * (done.out.detach() * pull).norm(dim=-1) * torch.randn_like(pull[..., 0]).sign()
    cotangent = error[..., None] * SLOPES[case["align"]](done.map.weights())
    seen = attend(*qkv, made, Sigmoid(0.0), over, backend="reference").map.weights(grad=True)
    slope = (seen * (1 - seen)).detach()
    leaves = dict(zip("qk", qkv, strict=False)) | {f"score.{name}": x for name, x in made.named_parameters()}
    cotangent = torch.where(slope > 0, cotangent / slope, 0.0)
    grads = torch.autograd.grad(seen, list(leaves.values()), cotangent, allow_unused=True)
    return {name: g.abs().amax().item() for name, g in zip(leaves, grads, strict=True) if g is not None and g.numel()}


def losses(case, seed=0):
    """name: (error, what is allowed) of the output and of each gradient."""
    dtype = FACTORS["dtype"][case["dtype"]]
    true, own, mine = (
        outcome(case, kind, backend, seed)
        for kind, backend in ((torch.float64, "reference"), (dtype, "reference"), (dtype, "triton-dense"))
    )
    found = {}
    for names in (["out"], list(true)[1:]):
        largest = max((true[name].abs().amax().item() for name in names if true[name].numel()), default=0.0)
        for name in names:
            x = true[name]
            far = [(z[name].double() - x).abs().amax().item() if x.numel() else 0.0 for z in (mine, own)]
            found[name] = far[0], 2 * far[1] + 2 * torch.finfo(dtype).eps * largest
    return found


def beyond(found):
    return {name: pair for name, pair in found.items() if not pair[0] <= pair[1]}


@pytest.mark.parametrize("name", CASES)
def test_every_two_values_of_the_product(name):
    case = CASES[name]
    found = losses(case)
    if beyond(found):
        draws = [found, *(losses(case, seed) for seed in range(1, 8))]
        found = {name: tuple(map(sum, zip(*(one[name] for one in draws), strict=True))) for name in found}
    if beyond(found):
        lost = [lost_to_the_mean(case, seed) for seed in range(8)]
        found = {
            name: (error, allowed + 2 * sum(one.get(name, 0.0) for one in lost))
            for name, (error, allowed) in found.items()
        }
    assert not beyond(found)
    dtype = FACTORS["dtype"][case["dtype"]]
    plain = outcome(case, dtype, "triton-dense")
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.empty(8, device="cuda").isnan().all()
        poisoned = outcome(case, dtype, "triton-dense")
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(plain[name], poisoned[name]) for name in plain)


def test_the_cover_is_small_and_whole():
    met = set().union(*map(pairs_of, CASES.values()))
    assert len(CASES) <= 300
    assert len(met) == sum(len(x) * len(y) for x, y in combinations(FACTORS.values(), 2))


@pytest.mark.parametrize("align", ["softmax", "entmax15", TopK(3)], ids=str)
def test_offsets_beyond_two_to_the_31(align):
    """The last head of very many is what it is alone."""
    heads, n, d = 32768, 272, 256
    q = torch.randn(1, heads, n, d, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    assert q.numel() > 2**31
    out = attend(q, q, q, align=align, over=Causal(), backend="triton-dense").out
    (grad,) = torch.autograd.grad(out, q, out)
    last = q[:, -1:].detach().requires_grad_()
    alone = attend(last, last, last, align=align, over=Causal(), backend="triton-dense").out
    (grad_alone,) = torch.autograd.grad(alone, last, alone)
    assert torch.equal(out[:, -1:], alone) and torch.equal(grad[:, -1:], grad_alone)


@pytest.mark.parametrize("align", ["softmax", "sigmoid", "entmax15", TopK(3), "hard"], ids=str)
def test_one_compilation_serves_every_length(align):
    torch._dynamo.reset()
    counters.clear()
    call = lambda q, k, v: attend(q, k, v, align=align, over=Causal("end"), backend="triton-dense").out  # noqa: E731
    compiled = torch.compile(call, fullgraph=True, dynamic=True)
    for n, m in ((130, 150), (77, 200), (33, 33)):  # two lengths that are first equal are one to torch.compile
        q, k, v = (torch.randn(2, 4, size, 64, device="cuda", requires_grad=True) for size in (n, m, m))
        found = []
        for run in (compiled, call):
            out = run(q, k, v)
            found.append((out, *torch.autograd.grad(out.square().sum(), [q, k, v], allow_unused=True)))
        for mine, theirs in zip(*found, strict=True):
            assert (mine is None) == (theirs is None) and (mine is None or torch.equal(mine, theirs))
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("align", ["softmax", "entmax15", TopK(3)], ids=str)
def test_operators_hold_their_schema(align, monkeypatch):
    from regard.backends.triton.dense import backend as triton_dense
    from regard.backends.triton.dense import topk as triton_topk

    seen = []
    for home, name in ((triton_dense, "dense_op"), (triton_topk, "topk_op")):
        op = getattr(home, name)
        monkeypatch.setattr(home, name, lambda *given, op=op: seen.append((op, given)) or op(*given))
    q, k, v = (torch.randn(2, h, 70, 32, device="cuda", requires_grad=True) for h in (4, 2, 2))
    attend(q, k, v, align=align, over=Causal(), dropout=0.2, seed=3, backend="triton-dense")
    ((op, given),) = seen
    torch.library.opcheck(op.call, given, test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))
