"""Layers with a state, beside loops over tokens and the models of others."""

import pytest
import torch
from tests.sampling import mostly_slow
from torch import nn as torch_nn
from torch.testing import assert_close

from regard import ALiBi, Causal, attend
from regard.nn import CausalLinearAttention, KimiDeltaAttention, LightningAttention, Mamba2
from regard.scores import LinearKernel

DIM, HEADS, N = 24, 3, 13
KINDS = {
    "linear": lambda: CausalLinearAttention(DIM, HEADS),
    "linear, fading": lambda: CausalLinearAttention(DIM, HEADS, decay=torch.tensor([0.0, 0.1, 1.0])),
    "lightning": lambda: LightningAttention(DIM, HEADS, depth=1, layers=3),
    "kimi": lambda: KimiDeltaAttention(DIM, HEADS, rank=5),
    "mamba": lambda: Mamba2(DIM, state=6, d=8, groups=2),
}


@pytest.fixture(autouse=True)
def doubles():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


@pytest.mark.parametrize("name", KINDS)
def test_token_by_token_is_the_whole_and_all_learns(name):
    layer, x = KINDS[name](), torch.randn(2, N, DIM)
    whole, state, steps = layer(x), None, []
    for t in range(N):
        found = layer(x[:, t : t + 1], state)
        state, steps = found.state, [*steps, found.out]
    assert_close(torch.cat(steps, 1), whole.out)
    assert whole.map.shape == (2, layer.heads, N, N)
    assert_close(whole.map[1, 1].tile([5, 2], [1, 4]), whole.map.weights()[1, 1][[5, 2]][:, [1, 4]])
    whole.out.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("name", KINDS)
def test_what_comes_later_changes_nothing_before(name):
    layer, x = KINDS[name](), torch.randn(2, N, DIM)
    assert_close(layer(x).out[:, :7], layer(x[:, :7]).out)


@pytest.mark.parametrize("name", mostly_slow(KINDS, "linear, fading", "mamba"))
def test_a_layer_compiles_to_the_same_numbers(name):
    layer, x = KINDS[name](), torch.randn(2, N, DIM)
    compiled = torch.compile(lambda x: layer(x).out, backend="aot_eager", fullgraph=True)
    assert_close(compiled(x), layer(x).out)


@pytest.mark.parametrize("name", ["linear", "linear, fading"])
def test_linear_attention_is_attention_with_a_kernel_and_a_decay_is_alibi(name):
    layer, x = KINDS[name](), torch.randn(2, N, DIM)
    q, k, v = (heads(proj(x), HEADS) for proj in (layer.q_proj, layer.k_proj, layer.v_proj))
    slopes = torch.zeros(HEADS) if layer.slopes is None else layer.slopes
    wanted = attend(q, k, v, LinearKernel() | ALiBi(slopes=slopes), over=Causal())
    found = layer(x)
    assert_close(found.map.weights(), wanted.map.weights())
    assert_close(found.map.weights().sum(-1), torch.ones(2, HEADS, N))
    y = layer.norm(wanted.out).transpose(1, 2).flatten(2) * torch_nn.functional.silu(layer.gate_proj(x))
    assert_close(found.out, layer.out_proj(y))


def test_the_kimi_rule_is_its_formula_one_token_after_the_other():
    layer, x = KINDS["kimi"](), torch.randn(1, N, DIM)
    q, k, v = (heads(proj(x), HEADS)[0] for proj in (layer.q_proj, layer.k_proj, layer.v_proj))
    q, k = (y / y.norm(dim=-1, keepdim=True) for y in (q, k))
    beta = torch.sigmoid(layer.beta_proj(x))[0]
    fade = torch.exp(-torch_nn.functional.softplus(layer.decay_proj(x))[0].unflatten(-1, (HEADS, -1)))
    out = torch.zeros(HEADS, N, 8)
    for h in range(HEADS):
        state = torch.zeros(8, 8)
        for t in range(N):
            state = fade[t, h, :, None] * state
            state = state + beta[t, h] * torch.outer(k[h, t], v[h, t] - k[h, t] @ state)
            out[h, t] = q[h, t] @ state / 8**0.5
    found = layer(x)
    y = layer.norm(out).transpose(0, 1).flatten(1) * torch_nn.functional.silu(layer.gate_proj(x))[0]
    assert_close(found.out[0], layer.out_proj(y))
    assert_close((found.map.weights()[0] @ v.detach()), out.detach())


def test_mamba_2_is_the_mixer_of_transformers_with_its_weights():
    peer = pytest.importorskip("transformers.models.mamba2.modeling_mamba2", reason="the peer is transformers")
    config = pytest.importorskip("transformers").Mamba2Config(
        hidden_size=DIM, num_heads=6, head_dim=8, state_size=6, n_groups=2, expand=2, conv_kernel=4, chunk_size=4,
        num_hidden_layers=1, layer_norm_epsilon=1e-5,
    )  # fmt: skip
    torch.set_default_dtype(torch.float32)
    theirs, x = peer.Mamba2Mixer(config, 0), torch.randn(2, N, DIM)
    for p in (theirs.A_log, theirs.D, theirs.dt_bias, theirs.norm.weight):
        torch_nn.init.normal_(p, std=0.5)
    ours = Mamba2(DIM, state=6, d=8, groups=2)
    ours.load_state_dict(theirs.state_dict())
    assert_close(ours(x).out, theirs(x), atol=1e-5, rtol=1e-4)


def test_lightning_attention_is_that_of_minimax_with_its_weights():
    peer = pytest.importorskip("transformers.models.minimax.modeling_minimax", reason="the peer is transformers")
    config = pytest.importorskip("transformers").MiniMaxConfig(
        hidden_size=DIM, num_attention_heads=HEADS, num_hidden_layers=3, head_dim=8, block_size=4,
        layer_types=["linear_attention"] * 3,
    )  # fmt: skip
    torch.set_default_dtype(torch.float32)
    theirs, x = peer.MiniMaxLightningAttention(config, 1), torch.randn(2, N, DIM)
    ours = KINDS["lightning"]()
    parts = theirs.qkv_proj.weight.unflatten(0, (HEADS, 3, 8))
    with torch.no_grad():
        for place, proj in enumerate((ours.q_proj, ours.k_proj, ours.v_proj)):
            proj.weight.copy_(parts[:, place].flatten(0, 1))
        ours.gate_proj.weight.copy_(theirs.output_gate.weight)
        ours.out_proj.weight.copy_(theirs.out_proj.weight)
        ours.norm.weight.copy_(theirs.norm.weight)
    assert_close(ours(x).out, theirs(x, None, None)[0], atol=1e-5, rtol=1e-4)
