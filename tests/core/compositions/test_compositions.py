"""What is composed of parts in a few lines, beside its formula written out; and recurrences drawn at random."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard import Causal, Cosine, Full, Rotary, ScaledDot, Sigmoid, attend, nn
from regard.core.compositions import COMPOSITIONS

N, D = 7, 8


@pytest.fixture(autouse=True)
def doubles():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def causal_softmax(s):
    return s.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)


def turned(x, angles):
    """x (n, d) in halves, by angles (n, pairs); what has no angle stays."""
    out, width = x.clone(), 2 * angles.shape[1]
    for p in range(x.shape[0]):
        for c in range(width // 2):
            a, b, t = x[p, c], x[p, c + width // 2], angles[p, c]
            out[p, c], out[p, c + width // 2] = a * t.cos() - b * t.sin(), b * t.cos() + a * t.sin()
    return out


PLACES = torch.arange(N)[:, None]
PAIR = 2 * torch.arange(D // 2) / D
ROTARY = {
    "plain": ({}, PLACES / 10000.0**PAIR),
    "position interpolation": ({"stretch": "linear", "factor": 4.0}, PLACES / 4 / 10000.0**PAIR),
    "ntk": ({"stretch": "ntk", "factor": 4.0}, PLACES / (10000.0 * 4.0 ** (D / (D - 2))) ** PAIR),
    "partial": ({"turned": 4}, PLACES / 10000.0 ** (2 * torch.arange(2) / 4)),
}


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_and_its_stretches_are_their_angles(name):
    options, angles = ROTARY[name]
    rotary, (q, k, v) = Rotary(D, **options), torch.randn(3, N, D)
    w = causal_softmax(turned(q, angles.double()) @ turned(k, angles.double()).T / D**0.5)
    found = attend(rotary(q), rotary(k), v, over=Causal())
    assert_close(found.map.weights(), w)
    assert_close(found.out, w @ v)


def test_query_key_norm_is_the_cosine_and_bounds_the_scores():
    q, k, v = 50 * torch.randn(3, N, D)
    unit = [x / x.norm(dim=-1, keepdim=True) for x in (q, k)]
    assert_close(attend(q, k, v, Cosine(10.0), over=Causal()).map.weights(), causal_softmax(10 * unit[0] @ unit[1].T))


def test_without_positions_the_mask_alone_orders_tokens():
    x = torch.randn(1, N, D)
    swapped = x[:, [1, 0, *range(2, N)]]
    for over, moved in ((Full(), False), (Causal(), True)):
        lasts = []
        for y in (x, swapped):
            h = attend(y, y, y, over=over).out
            lasts.append(attend(h, h, h, over=over).out[0, -1])
        assert torch.allclose(*lasts) is not moved


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_queries_share_a_key(kv_heads):
    layer, x = nn.Attention(16, 4, kv_heads=kv_heads), torch.randn(1, N, 16)
    q = layer.q_proj(x)[0].unflatten(-1, (4, 4)).transpose(0, 1)
    k = layer.k_proj(x)[0].unflatten(-1, (kv_heads, 4)).transpose(0, 1)
    w = torch.stack([causal_softmax(q[h] @ k[h * kv_heads // 4].T / 2) for h in range(4)])
    assert_close(layer(x, over=Causal()).map.weights()[0], w.detach())


def test_a_window_sees_its_last_keys_alone():
    q, k, v = torch.randn(3, N, D)
    keep = torch.ones(N, N, dtype=torch.bool).tril().triu(-2)
    w = (q @ k.T / D**0.5).masked_fill(~keep, float("-inf")).softmax(-1)
    assert_close(attend(q, k, v, over=Causal(window=3)).map.weights(), w)


@pytest.mark.parametrize("rate", [0.0, 0.5, 2.0])
def test_the_schedule_of_a_sigmoid_is_its_formula(rate):
    q, k, v = torch.randn(3, N, D)
    count = torch.arange(1, N + 1)[:, None]
    w = 1 / (1 + torch.exp(-q @ k.T / D**0.5) * count**rate)
    assert_close(attend(q, k, v, ScaledDot(), Sigmoid(rate=rate), Causal()).map.weights(), w.tril())


def test_every_composition_of_attend_runs_and_has_rows_of_weights():
    for name, one in COMPOSITIONS.items():
        for call in one.calls:
            plan = call()
            found = attend(plan.q, plan.k, plan.v, plan.score, plan.align, plan.over)
            assert found.out.isfinite().all(), name
            assert found.map.shape[-2:] == (plan.n, plan.m)


LAYERS = {
    "retention": lambda dim, heads: nn.Retention(dim, heads),
    "gla": lambda dim, heads: nn.GatedLinearAttention(dim, heads),
    "delta": lambda dim, heads: nn.GatedDeltaNet(dim, heads, gate=False),
    "gated delta": lambda dim, heads: nn.GatedDeltaNet(dim, heads),
    "kimi": lambda dim, heads: nn.KimiDeltaAttention(dim, heads),
    "lightning": lambda dim, heads: nn.LightningAttention(dim, heads),
    "linear": lambda dim, heads: nn.CausalLinearAttention(dim, heads),
    "mamba": lambda dim, heads: nn.Mamba2(dim, state=5, d=2 * dim // heads),
    "nsa": lambda dim, heads: nn.NativeSparseAttention(dim, heads, block=3, top=2, window=4),
    "moba": lambda dim, heads: nn.MixtureOfBlockAttention(dim, heads, block=3, top=2),
    "dsa": lambda dim, heads: nn.IndexedAttention(dim, heads, top=3, index_heads=2, index_d=4),
    "mta": lambda dim, heads: nn.MultiTokenAttention(dim, heads, query=2, key=3, group=1),
    "differential": lambda dim, heads: nn.DifferentialAttention(dim, heads),
    "gated": lambda dim, heads: nn.GatedAttention(dim, heads),
    "talking heads": lambda dim, heads: nn.TalkingHeadsAttention(dim, heads),
    "latent": lambda dim, heads: nn.LatentAttention(dim, heads, latent=5, rope=2),
    "tensor product": lambda dim, heads: nn.TensorProductAttention(dim, heads),
    "cross layer": lambda dim, heads: nn.CrossLayerAttention(dim, heads),
}
TAKES_OVER = ("differential", "gated", "talking heads", "latent", "tensor product", "cross layer")


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(list(LAYERS)),
    heads=st.sampled_from([1, 2, 3]),
    batch=st.sampled_from([1, 2]),
    n=st.sampled_from([1, 2, 5, 17, 66]),
    seed=st.integers(0, 99),
)
def test_any_layer_in_fp32_is_as_in_fp64_with_a_map_and_finite_gradients(name, heads, batch, n, seed):
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    exact, x = LAYERS[name](8 * heads, heads), torch.randn(batch, n, 8 * heads)
    over = {"over": Causal()} if name in TAKES_OVER else {}
    true = exact(x, **over)
    assert true.map.shape == (batch, exact.heads, n, n)
    assert not true.map.weights().triu(1).any()
    true.out.square().sum().backward()
    gradients = [p.grad for key, p in exact.named_parameters() if not key.startswith("indexer")]
    assert all(g is not None and g.isfinite().all() for g in gradients)
    if name in ("dsa", "nsa", "moba"):  # what is chosen may differ where two scores are close
        return
    found = exact.float()(x.float(), **over)
    assert_close(found.out.double(), true.out, atol=2e-4, rtol=2e-3)
