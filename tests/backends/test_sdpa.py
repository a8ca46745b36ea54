"""SDPA: what lowers to a dot product and a softmax runs on torch's fused attention; the rest is refused by sentence."""

import pytest
import torch
import torch.nn.functional as F
from tests.oracle import Case, disagreements, ulp

from regard import (
    ALiBi,
    Causal,
    Cosine,
    Dot,
    Edges,
    Entmax,
    Gaussian,
    General,
    LocalPredictive,
    LocationAware,
    Mask,
    Padding,
    QueryFree,
    Refused,
    ScaledDot,
    Segments,
    Sink,
    SoftCap,
    Trilinear,
    Window,
    attend,
    plan,
)

pytestmark = pytest.mark.usefixtures("either_path")


def tensors(n=5, m=5, d=4, d_v=4, heads=2, kv_heads=2, dtype=torch.float32, batch=2):
    sizes = ((heads, n, d), (kv_heads, m, d), (kv_heads, m, d_v))
    return [torch.randn(batch, *size).to(dtype).requires_grad_() for size in sizes]


LENGTHS = torch.tensor([5, 2])
PAIRS = torch.ones(5, 5, dtype=torch.bool).tril()
KEYS = torch.tensor([True, True, True, False, True])


@pytest.mark.parametrize(
    ("score", "over"),
    [
        (ScaledDot(), None),
        (Dot(), Causal()),
        (General(4, 4), Causal(align="start")),
        (Cosine(4.0), Padding(LENGTHS)),
        (Gaussian(), Mask(keep=PAIRS)),
        (Trilinear(4), Padding(LENGTHS) & Mask(keep=KEYS)),
        (QueryFree(4), None),
    ],
    ids=lambda part: type(part).__name__,
)
def test_it_runs_what_lowers_to_a_dot_product(score, over):
    q, k, v = tensors()
    assert plan(q, k, v, score, over=over).backend == "sdpa"
    ours = attend(q, k, v, score, over=over, backend="sdpa").out
    torch.testing.assert_close(ours, attend(q, k, v, score, over=over, backend="reference").out, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("Its alignment is softmax; this is Entmax (entmax 1.5)", {"align": Entmax(1.5)}),
        ("scores by dot products; this is pair tanh", {"score": "additive"}),
        ("scores by dot products; this is pair negative_abs", {"score": "laplace"}),
        ("no modifiers; this score has SoftCap, ALiBi", {"score": Dot() | SoftCap(2.0) | ALiBi(2)}),
        ("no sinks", {"score": Dot() | Sink(2)}),
        ("no biases of keys by feature", {"score": QueryFree(4, features=4)}),
        ("goes step by step", {"score": LocationAware(4, kernel=3)}),
        ("this is LocalPredictive (predicted windows)", {"align": LocalPredictive(2)}),
        ("key masks and pair masks; this is Window(left=1", {"over": Window(1, 1)}),
        ("this is Segments(", {"over": Segments(torch.tensor([0, 0, 1, 1, 1]))}),
        ("this is Edges(1 edges)", {"over": Edges(torch.tensor([[0], [1]]))}),
        ("causality alone or a mask, not both", {"over": Causal() & Padding(LENGTHS)}),
        ("takes one mask; joining these", {"over": Mask(keep=PAIRS) & Padding(LENGTHS)}),
        ("draws its own dropout and cannot take a seed", {"dropout": 0.1, "seed": 1}),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_it_refuses_it_refuses_with_a_reason(why, options):
    q, k, v = tensors()
    with pytest.raises(Refused) as error:
        attend(q, k, v, backend="sdpa", **options)
    assert why in str(error.value) and 'backend="auto"' in str(error.value)
    assert attend(q, k, v, **options).out.shape == (2, 2, 5, 4)


def test_end_aligned_causality_is_refused_unless_it_is_one_step_of_decoding():
    q, k, v = tensors(n=3, m=5)
    with pytest.raises(Refused, match="starts at the first key"):
        attend(q, k, v, over=Causal(align="end"), backend="sdpa")
    last = attend(q[:, :, -1:], k, v, over=Causal(align="end"), backend="sdpa").out
    torch.testing.assert_close(last, attend(q, k, v, over=Causal(align="end"), backend="reference").out[:, :, -1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "score", ["general", "biased general", "cosine", "gaussian, learned width", "trilinear", "query-free"]
)
def test_bilinear_and_distance_scores_keep_the_precision_of_the_reference(score, dtype):
    for over in ("full", "causal from the start", "padding"):
        case = Case(score, "softmax", over, "odd", "4 on 2")
        assert "sdpa" in case.ways(dtype)
        assert disagreements(case, (dtype,)) == []


def far_keys(dtype):
    """Keys far from the origin: |k|^2 / 2 is about 200, of which one bf16 column keeps 8 bits."""
    torch.manual_seed(3)
    offset = torch.full((8,), 7.0)
    q, k, v = (torch.randn(1, 1, 40, 8) for _ in range(3))
    return [x.bfloat16().to(dtype) for x in (q + offset, k + offset, v)]


def test_a_key_bias_in_three_columns_is_as_good_as_fp32_and_one_column_is_not():
    truth = attend(*far_keys(torch.float64), "gaussian", backend="reference").out
    ours = attend(*far_keys(torch.bfloat16), "gaussian", backend="sdpa").out
    q, k, v = far_keys(torch.bfloat16)
    bias = -0.5 * k.float().square().sum(-1, keepdim=True)
    naive = F.scaled_dot_product_attention(
        torch.cat([q, torch.ones_like(q[..., :1])], -1),
        torch.cat([k, bias.bfloat16()], -1),
        F.pad(v, (0, 1)),
        scale=1.0,
    )[..., :8]
    error, naive_error = ((x.double() - truth).abs().max() for x in (ours, naive))
    assert naive_error > 10 * error
    assert error <= 2 * ulp(truth, torch.bfloat16)  # nothing is lost but the rounding of the output


def test_three_columns_hold_the_bias_to_24_bits():
    from regard.backends.sdpa import _with_bias

    bias = 300 * torch.randn(1, 1, 50)
    for dtype in (torch.bfloat16, torch.float16):
        q, k = torch.zeros(1, 1, 50, 4, dtype=dtype), torch.zeros(1, 1, 50, 4, dtype=dtype)
        wide_q, wide_k = _with_bias(q, k, bias, 0.5)
        held = 0.5 * (wide_q.double() @ wide_k.double().transpose(-1, -2))[0, 0, 0]
        assert ((held - bias[0, 0]).abs() <= 2.0**-22 * bias.abs().amax()).all()


@pytest.mark.parametrize(("d", "d_v"), [(4, 7), (7, 4), (4, 1), (1, 8)])
def test_widths_that_differ_are_padded_without_a_trace(d, d_v):
    q, k, v = tensors(d=d, d_v=d_v)
    pull = torch.randn(2, 2, 5, d_v)
    found = {}
    for backend in ("sdpa", "reference"):
        out = attend(q, k, v, backend=backend).out
        found[backend] = (out.detach(), *torch.autograd.grad(out, [q, k, v], pull))
    torch.testing.assert_close(found["sdpa"], found["reference"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("score", [ScaledDot(), Gaussian()], ids=["plain", "lowered"])
def test_grouped_queries_are_those_of_repeated_keys(score):
    q, k, v = tensors(heads=6, kv_heads=2, d_v=3)
    grouped = attend(q, k, v, score, backend="sdpa").out
    repeated = attend(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1), score, backend="sdpa").out
    torch.testing.assert_close(grouped, repeated)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_without_a_key_gives_zero_and_takes_no_gradient(dtype):
    for over in (Mask(keep=PAIRS.roll(1, 0).tril(-1)), Padding(torch.tensor([3, 0]))):
        q, k, v = tensors(dtype=dtype)
        out = attend(q, k, v, over=over, backend="sdpa").out
        out.sum().backward()
        empty = out.detach()[:, :, 0] if isinstance(over, Mask) else out.detach()[1]
        assert (empty == 0).all()
        for x in (q, k, v):
            assert x.grad.isfinite().all()
        assert (q.grad[:, :, 0] == 0).all() if isinstance(over, Mask) else (k.grad[1] == 0).all()


def test_no_keys_at_all_give_zeros():
    q, k, v = tensors(m=0)
    out = attend(q, k, v, backend="sdpa").out
    assert out.shape == (2, 2, 5, 4) and (out == 0).all()
    out.sum().backward()
    assert (q.grad == 0).all() and k.grad.shape == k.shape


def test_padding_may_hold_nan():
    q, k, v = (x.detach() for x in tensors())
    clean = attend(q, k, v, over=Padding(LENGTHS), backend="sdpa").out
    k[1, :, 2:], v[1, :, 2:] = float("nan"), float("nan")
    torch.testing.assert_close(attend(q, k, v, over=Padding(LENGTHS), backend="sdpa").out, clean)


def test_a_key_mask_is_never_spread_to_n_times_m(monkeypatch):
    """SDPA is handed a mask of (batch, 1, 1, m), whatever n."""
    seen = []
    true = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **o: seen.append(o["attn_mask"]) or true(*a, **o))
    q, k, v = tensors()
    attend(q, k, v, over=Padding(LENGTHS), backend="sdpa")
    assert seen[0].shape == (2, 1, 1, 5)


def test_grouped_queries_are_handed_over_grouped(monkeypatch):
    seen = []
    true = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda q, k, *a, **o: seen.append(k.shape) or true(q, k, *a, **o)
    )
    q, k, v = tensors(heads=6, kv_heads=2)
    attend(q, k, v, backend="sdpa")
    assert seen[0][1] == 2
